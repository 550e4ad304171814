// Package chart has the drawing of charts for pages of stint: the dashboard, which serves them as static/chart.js and
// static/chart.css beside its own files, and reports, which carry both inside one HTML file:
//
//	<style>chart.Style</style>
//	<script type="module">chart.Script … what the report draws …</script>
//
// The script imports nothing and knows no page. Its functions take a document and data, and return SVG elements whose
// looks are in the style sheet, by class; the colours are custom properties, which a page may set.
package chart

import _ "embed" // the two files

// Script is an ECMAScript module.
//
//go:embed chart.js
var Script string

// Style is its style sheet.
//
//go:embed chart.css
var Style string
