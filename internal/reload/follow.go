package reload

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is the maximum number of symbolic links that are followed on the way to a file. Linux
// has the same maximum.
const maxLinks = 40

// follow calls add for each directory in which a change can alter what a path refers to: the
// directory of the final target, and the directory of each symbolic link on the way. For example, a
// deployment may replace the link `current` in the path current/rules/a.yaml.
func follow(path string, add func(directory string)) {
	for range maxLinks {
		link, rest := firstLink(path)
		if link == "" {
			break
		}
		add(filepath.Dir(link))
		target, err := os.Readlink(link)
		if err != nil {
			return // the link has just been removed; that is a change in a watched directory
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
	add(filepath.Dir(path))
}

// firstLink returns the first symbolic link in a path, and the rest of the path after it. If the
// path has no link or does not exist, both are "".
func firstLink(path string) (link, rest string) {
	path = filepath.Clean(path)
	for at := 1; at <= len(path); at++ { // the root is not a link
		if at < len(path) && !os.IsPathSeparator(path[at]) {
			continue
		}
		info, err := os.Lstat(path[:at])
		if err != nil {
			return "", ""
		}
		if info.Mode()&os.ModeSymlink != 0 {
			return path[:at], strings.TrimLeft(path[at:], string(filepath.Separator))
		}
	}
	return "", ""
}
