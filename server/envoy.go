package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-limiter/stint/internal/reload"
	"github.com/stint-limiter/stint/server/envoyrls"
)

// maxEnvoy bounds what is read to find out whether Envoy's rules have changed, in bytes.
const maxEnvoy = 64 << 20

// watchEnvoy keeps Envoy's service in step with its rules.
func (s *Server) watchEnvoy() (*reload.Watcher, error) {
	path := s.c.Envoy
	return reload.New(reload.Config{
		Name:  "server: the configuration of Envoy's service",
		Paths: []string{path},
		Deep:  true,
		Open:  func() ([]reload.File, error) { return openEnvoy(path) },
		Read: func([]reload.File) (func(), error) {
			rules, err := envoyrls.Load(path)
			return func() { s.envoy.Swap(rules) }, err
		},
		Logger: s.c.Logger,
	})
}

// openEnvoy reads all files that could be of Envoy's rules. Which of them are is for [envoyrls.Load] to say: one that is
// not does no harm, and one that changes between the two is looked at again.
func openEnvoy(path string) ([]reload.File, error) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var names []string
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reload.ReadFiles(maxEnvoy, names...)
}
