// Package chart draws the charts of stint's pages. The dashboard serves static/chart.js and
// static/chart.css next to its own files. A report includes both files in its HTML:
//
//	<style>chart.Style</style>
//	<script type="module">chart.Script … what the report draws …</script>
//
// The script imports nothing and does not depend on any page. Its drawing functions take a document
// and data, and return elements. The style sheet styles these elements by class. The colors are
// custom properties, which a page may set.
package chart

import _ "embed" // for Script and Style

// Script is the ECMAScript module that draws the charts.
//
//go:embed chart.js
var Script string

// Style is the style sheet of the charts.
//
//go:embed chart.css
var Style string
