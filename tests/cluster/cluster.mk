# The Kubernetes that demo, tests and benchmarks run on: tests/cluster/README.md.
LOCALKUBE := PYTHONPATH=$(CURDIR)/tests/cluster python3 -m localkube

##@ Cluster
.PHONY: cluster cluster-down cluster-status images install image-context image-buildah
cluster: ## A Kubernetes for tests, made or mended; NODES=3, PROVIDER=local|kind|existing
	@$(LOCALKUBE) up
cluster-down: ## Take it down; nothing of it is left
	@$(LOCALKUBE) down
cluster-status: ## What of it runs
	@$(LOCALKUBE) status
images: cluster ## Build the operator's image and bring it into the cluster
	@$(LOCALKUBE) images
install: cluster ## The operator, from this checkout, in the cluster
	@$(LOCALKUBE) install
image-context: ## What the Dockerfile copies, for `docker build`
	@$(LOCALKUBE) image-context
image-buildah: ## Build the Dockerfile with buildah, to see that it builds
	@$(LOCALKUBE) image-buildah
