// Package deploy checks the examples in the folder deploy, as far as that is possible without Kubernetes and docker: it renders
// and decodes the manifests, loads the Compose file and parses the Dockerfiles. It is a module of its own, because nothing else
// needs these dependencies.
package deploy
