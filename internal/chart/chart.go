// Package chart draws the charts of stint's pages. The dashboard serves static/chart.js and
// static/chart.css next to its own files. Reports include both in one HTML file:
//
//	<style>chart.Style</style>
//	<script type="module">chart.Script … what the report draws …</script>
//
// The script imports nothing and depends on no page. Its functions take a document and data, and
// return SVG elements. The style sheet styles them by class; the colors are custom properties,
// which a page may set.
package chart

import _ "embed" // the two files

// Script is the ECMAScript module that draws the charts.
//
//go:embed chart.js
var Script string

// Style is the style sheet of the charts.
//
//go:embed chart.css
var Style string
