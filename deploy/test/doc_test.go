// Package deploy tests what deploy/ holds by running it: manifests are built with kustomize and
// decoded with the types of Kubernetes, and their command line is run. A real Prometheus scrapes it
// for the rules and the board, and a real Alertmanager receives the alerts. With the build tag
// image, the container image is built and run as well, which needs root, buildah, podman and runc, and
// Helm renders the chart.
package deploy
