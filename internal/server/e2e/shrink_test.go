package e2e

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"
)

// shrink writes a picture again with the 256 colors that are most of it, and others as the nearest
// of those. A page has few colors, and many shades between them at the edges of letters. It returns
// the size in bytes.
func shrink(path string) (size int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	at := full.Bounds()
	often := map[color.Color]int{}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			often[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return cmp.Compare(often[b], often[a]) })
	small := image.NewPaletted(at, color.Palette(colors[:min(256, len(colors))]))
	nearest := map[color.Color]uint8{}
	for c := range often {
		nearest[c] = uint8(small.Palette.Index(c))
	}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[full.At(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
		return 0, err
	}
	return b.Len(), os.WriteFile(path, b.Bytes(), 0o644)
}
