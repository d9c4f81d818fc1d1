# etcd-operator: `make demo` shows it, `make test` proves it, `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE ?= $(or $(ETCD_OPERATOR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/etcd-operator)
LOCK := $(shell cat requirements/{dev,operator}.lock 2>/dev/null | sha256sum | cut -c1-12)
VENV := $(CACHE)/venv-$(LOCK)
PYTHON := $(VENV)/bin/python
export PYTHONPATH := $(CURDIR)/operator:$(CURDIR)/stateful:$(CURDIR)/tests/cluster
# A folder named `operator` is on the path of `python -m` in this directory; nothing may import it.
export PYTHONSAFEPATH := 1
export PATH := $(CURDIR)/build/bin:$(PATH)
# Without it each of many hundred processes would compile the same modules for itself.
unexport PYTHONDONTWRITEBYTECODE
# A new clone is checked as fast as an old one: mypy compares the contents of files.
export MYPY_CACHE_DIR := $(CACHE)/mypy

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ First
.PHONY: demo
demo: venv install ## Start a real cluster, install the operator, bring up an etcd cluster
	@$(PYTHON) tests/demo.py

.PHONY: test
test: venv ## Run every tier, end to end included; print the minutes of each
	@$(PYTHON) tests/tiers.py all

##@ Tests, tier by tier
.PHONY: lint test-unit test-integration test-e2e bench comparison mutants alerts oldest verify
lint: venv ## Check style, types, layering and generated files
	@$(PYTHON) tests/tiers.py lint
test-unit: venv ## Test pure functions, and passes against fakes; minutes, needs only Python
	@$(PYTHON) tests/tiers.py unit
test-integration: venv ## Test with real etcd and a real kube-apiserver
	@$(PYTHON) tests/tiers.py integration
test-e2e: venv ## Test with real kubelets, containers, volumes and the chart
	@$(PYTHON) tests/tiers.py e2e
bench: venv install test-tools ## Measure speed and size; JSON report in build/bench
	@$(PYTHON) tests/bench/run.py
comparison: venv install ## Compare with pods with random names; writes docs/comparison.md
	@$(PYTHON) tests/comparison/compare.py
mutants: venv ## Seed bugs one at a time; shows which check catches which
	@$(PYTHON) tests/mutants/run.py
alerts: venv alert-tools ## Test when each alert fires, with Prometheus' own promtool
	@$(PYTHON) -m pytest --quiet -m verify tests/alerts
oldest: venv ## Test on the oldest supported Kubernetes and Helm; needs that no other local cluster is up
	@$(PYTHON) tests/oldest/run.py
	@$(MAKE) --no-print-directory KUBERNETES=oldest test-e2e
verify: venv ## Run the long campaigns, on three nodes; their reports are checked in
	@$(MAKE) --no-print-directory NODES=3 install test-tools alert-tools
	@$(PYTHON) tests/model/explore.py --report tests/model/report.json
	@WALKS=2000 $(PYTHON) -m pytest --quiet tests/unit/membership/test_combined_walk.py \
	  tests/unit/backup_controllers/test_backup_walk.py
	@$(PYTHON) tests/mutants/run.py
	@$(PYTHON) tests/integration/backup/campaign.py
	@$(PYTHON) -m pytest --quiet -m "verify or not verify" tests/integration/backup
	@$(PYTHON) -m pytest --quiet -m verify tests/integration --ignore=tests/integration/backup
	@$(PYTHON) -m pytest --quiet -m verify tests/alerts
	@rm -f tests/e2e/report.json
	@$(PYTHON) tests/tiers.py e2e-long
	@$(MAKE) --no-print-directory cluster-down
	@$(MAKE) --no-print-directory oldest cluster-down

##@ Development
.PHONY: venv fmt golden reference diagrams sbom charts lock clean
venv: $(VENV)/.complete ## Install the locked Python packages into the cache, once for each lock
$(VENV)/.complete:
	@echo "== Python packages (once per lock)"
	@python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@
fmt: venv ## Format and sort
	@$(PYTHON) -m ruff format . && $(PYTHON) -m ruff check --fix .
golden: venv ## Rewrite the golden manifests; review the diff
	@$(PYTHON) -m pytest tests/unit -q --update-golden
reference: venv ## Write docs/reference.md from crds/
	@$(PYTHON) docs/make_reference.py
diagrams: venv ## Draw the diagrams that docs/make_diagrams.py describes
	@$(PYTHON) docs/make_diagrams.py
sbom: venv ## Write what the image is made of to build/sbom.cdx.json (CycloneDX); DPKG= the dpkg/status of its base
	@$(PYTHON) docs/make_sbom.py build/sbom.cdx.json $(DPKG)
charts: ## Copy crds/ into the operator's chart
	@cp crds/*.yaml charts/etcd-operator/files/crds/
lock: ## Pin the requirements again, with hashes
	@python3 -m venv $(CACHE)/uv && $(CACHE)/uv/bin/pip install --quiet uv
	@for each in operator dev bench; do $(CACHE)/uv/bin/uv pip compile --quiet --no-header --upgrade \
	  --generate-hashes --python-version 3.11 requirements/$$each.in -o requirements/$$each.lock; done
clean: ## Remove what this checkout built, but not caches or the cluster
	@rm -rf build/image build/bench .mypy_cache .ruff_cache .pytest_cache

include tests/cluster/cluster.mk
