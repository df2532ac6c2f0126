# `make help` lists what there is.

PYTHON ?= python3

.PHONY: help libtorch

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 20

libtorch: ## Fetch libtorch into .libtorch/ (0.5 GB to download once).
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing. On Debian and Ubuntu: apt-get install python3 python3-pip" >&2; exit 1; }
	@$(PYTHON) scripts/libtorch.py
