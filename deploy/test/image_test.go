//go:build image

package deploy

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-limiter/stint/internal/testkit"
)

// engine is podman, with buildah, on images and containers of this test only.
type engine struct {
	t       *testing.T
	storage []string
	image   string
}

// newEngine builds the image that the manifest names from bin/image.
func newEngine(t *testing.T, image string) *engine {
	t.Helper()
	directory := t.TempDir()
	e := &engine{t, []string{"--root=" + directory + "/images", "--runroot=" + directory + "/run"}, image}
	e.output("buildah", "bud", "-q", "-f", "../Dockerfile", "-t", image, filepath.Join(root, "bin", "image"))
	t.Cleanup(func() {
		e.podman("rm", "--all", "--force", "--time=0")
		e.podman("rmi", "--all", "--force") // unmounts what is in the directory
	})
	return e
}

func (e *engine) output(program string, args ...string) string {
	e.t.Helper()
	out, err := exec.Command(program, slices.Concat(e.storage, args)...).Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, failed.Stderr...)
		}
		e.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (e *engine) podman(args ...string) string {
	e.t.Helper()
	return e.output("podman", slices.Concat([]string{"--cgroup-manager=cgroupfs", "--runtime=runc"}, args)...)
}

// run starts a container in the background, with nothing that a process could do without, and
// returns its number and the process's.
func (e *engine) run(flags, args []string) (id, pid string) {
	e.t.Helper()
	all := slices.Concat([]string{
		"run", "--detach", "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL",
		"--security-opt=no-new-privileges",
		// podman's own limits may be above what this machine permits
		"--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096",
	}, flags, []string{e.image}, args)
	id = e.podman(all...)
	e.t.Cleanup(func() {
		if e.t.Failed() {
			e.t.Logf("%s:\n%s", id, e.log(id))
		}
	})
	testkit.Eventually(e.t, "the container is ready", func() bool { return strings.Contains(e.log(id), "server: ready") })
	return id, e.podman("inspect", "--format={{.State.Pid}}", id)
}

func (e *engine) log(id string) string {
	// of a failed test
	out, _ := exec.Command("podman", slices.Concat(e.storage, []string{"logs", id})...).CombinedOutput()
	return string(out)
}

// flags are the container's environment, mounts and memory for podman.
func (c *container) flags(t *testing.T) []string {
	t.Helper()
	flags := []string{"--memory=" + strconv.FormatInt(c.spec.Resources.Limits.Memory().Value(), 10)}
	for _, e := range c.env {
		flags = append(flags, "--env="+e)
	}
	for _, m := range c.spec.VolumeMounts {
		flags = append(flags, "--volume="+filepath.Join(c.files, m.MountPath)+":"+m.MountPath+":ro")
	}
	// Readable by a group, as kubelet does it with fsGroup.
	group := int(*c.pod.Spec.SecurityContext.FSGroup)
	err := filepath.WalkDir(c.files, func(name string, entry fs.DirEntry, err error) error {
		mode := fs.FileMode(0o440)
		if err == nil && entry.IsDir() {
			mode = 0o750
		}
		return errors.Join(err, os.Chown(name, 0, group), os.Chmod(name, mode))
	})
	if err != nil {
		t.Fatal(err)
	}
	return flags
}

// TestImage: the image has the program and nothing else, and runs without flags.
func TestImage(t *testing.T) {
	c := prepare(t, "redis://127.0.0.1:1")
	e := newEngine(t, c.spec.Image)
	mounted := e.podman("image", "mount", e.image)
	var files []string
	err := filepath.WalkDir(mounted, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(name, mounted))
		}
		return err
	})
	want := []string{"/bin/ratelimit", "/etc/ssl/certs/ca-certificates.crt", "/stint"}
	if err != nil || !slices.Equal(files, want) {
		t.Errorf("the image has %q, %v; want %q", files, err, want)
	}
	state, err := os.Stat(mounted + "/var/lib/stint")
	if err != nil || state.Sys().(*syscall.Stat_t).Uid != 65532 {
		t.Errorf("the state directory is %v, %v; want one of the user 65532", state, err)
	}
	program := testkit.Must(elf.Open(mounted + "/stint"))(t)
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the program needs the libraries %q, %v", libraries, err)
	}
	id, _ := e.run([]string{"--network=none"}, nil)
	if log := e.log(id); !strings.Contains(log, "file=/var/lib/stint/admin-token") {
		t.Errorf("there is no token in the state directory: %s", log)
	}
}

// TestImageAsPod runs the image with exactly the manifest's command line, in a network of its own.
// It has the user and the rights of the manifest, listens on its ports, and can write nowhere but
// to its state directory.
func TestImageAsPod(t *testing.T) {
	c := prepare(t, "redis://127.0.0.1:1")
	e := newEngine(t, c.spec.Image)
	id, pid := e.run(append(c.flags(t), "--network=none"), c.spec.Args)
	for line := range strings.Lines(e.log(id)) {
		if strings.Contains(line, "is readable by all users of this machine") {
			t.Error(line)
		}
	}
	status := testkit.ReadFile(t, "/proc/"+pid+"/status")
	user := strconv.FormatInt(*c.pod.Spec.SecurityContext.RunAsUser, 10)
	for _, want := range []string{
		"Uid:\t" + user + "\t", "Gid:\t" + user + "\t", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n",
		"NoNewPrivs:\t1\n", "Seccomp:\t2\n",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("the process does not have %q:\n%s", want, status)
		}
	}

	listening := listeners(t, pid)
	want := []string{"127.0.0.1:6070"}
	for _, p := range c.spec.Ports {
		want = append(want, ":"+strconv.Itoa(int(p.ContainerPort)))
	}
	slices.Sort(want)
	if !slices.Equal(listening, want) {
		t.Errorf("it listens on %q, want %q", listening, want)
	}

	for line := range strings.Lines(testkit.ReadFile(t, "/proc/"+pid+"/mounts")) {
		mount := strings.Fields(line) // device, path, type, options
		kernels := []string{"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue"}
		writable := slices.Contains(strings.Split(mount[3], ","), "rw")
		if writable && mount[1] != "/var/lib/stint" && !strings.HasPrefix(mount[1], "/dev") &&
			!slices.Contains(kernels, mount[2]) && !strings.HasPrefix(mount[1], "/proc") &&
			!strings.HasPrefix(mount[1], "/sys") {
			t.Errorf("it can write to %s", line)
		}
	}
}

// listeners returns the addresses that a process's network listens on, without the one of all
// interfaces.
func listeners(t *testing.T, pid string) (found []string) {
	t.Helper()
	for _, name := range []string{"tcp", "tcp6"} {
		for line := range strings.Lines(testkit.ReadFile(t, "/proc/"+pid+"/net/"+name)) {
			fields := strings.Fields(line)
			if fields[3] != "0A" { // LISTEN
				continue
			}
			address, hex, _ := strings.Cut(fields[1], ":")
			port := testkit.Must(strconv.ParseUint(hex, 16, 16))(t)
			host := "127.0.0.1"
			if strings.Trim(address, "0") == "" {
				host = ""
			}
			found = append(found, host+":"+strconv.FormatUint(port, 10))
		}
	}
	slices.Sort(found)
	return found
}
