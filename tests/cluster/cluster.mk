# The Kubernetes that demo, tests and benchmarks run on: tests/cluster/README.md.
LOCALKUBE := python3 -m localkube

##@ Cluster
.PHONY: cluster cluster-down cluster-status images install test-tools alert-tools image-context image-buildah
cluster: ## Start or repair a Kubernetes for tests; NODES=3, IP_FAMILY=ipv6, DNS_CACHE=30, KUBERNETES=oldest|v1.x.y, PROVIDER=local|kind|existing
	@$(LOCALKUBE) up
cluster-down: ## Take it down, without leftovers
	@$(LOCALKUBE) down
cluster-status: ## Show what runs of it
	@$(LOCALKUBE) status
images: cluster ## Build the operator's image and load it into the cluster
	@$(LOCALKUBE) images
install: cluster ## Install the operator from this checkout
	@$(LOCALKUBE) install
test-tools: ## Build what only tests need: an S3 and an Azure server, cert-manager, older etcd
	@$(LOCALKUBE) test-tools
alert-tools: ## Build what judges alerts: Prometheus' promtool
	@$(LOCALKUBE) alert-tools
image-context: ## Prepare what the Dockerfile copies, for `docker build`
	@$(LOCALKUBE) image-context
image-buildah: ## Check that the Dockerfile builds, with buildah
	@$(LOCALKUBE) image-buildah
