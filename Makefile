# Two commands do all the set-up: `make demo` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help demo build install dist ui view keys pictures setup test test-rust test-ui prove lint bench bench-check soak fuzz clean

BELLOWS := target/release/bellows
# Compiled in a fraction of the time: see the profile in Cargo.toml.
QUICK := target/quick/bellows
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
# The Node that scripts/setup brings where the system's is too old comes first.
export PATH := $(CURDIR)/.tools/node/bin:$(PATH)

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the release binary (target/release/bellows)
	cargo build --release -p bellows

demo: ## Load a real RabbitMQ for 20 seconds, profile it, write a report, name it
	@scripts/setup demo || echo "demo: no RabbitMQ here, so the embedded broker stands in" >&2
	@cargo build --profile quick -p bellows
	@if scripts/setup demo >/dev/null 2>&1; then $(QUICK) demo --set broker.kind=rabbitmq --set load.0.queue-type=stream; else $(QUICK) demo; fi
	@echo 'demo: to go on, call it by its name: PATH="$$PWD/target/quick:$$PATH"' >&2

install: ## Install binary, manual pages and completions below PREFIX (/usr/local); DESTDIR goes before it
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory build; fi
	@scripts/install "$(DESTDIR)$(PREFIX)" $(BELLOWS)

dist: ## Make a static binary in a tar file, and a Debian package of it, in target/dist
	@scripts/setup dist
	@scripts/dist

ui: ## Build the report's page anew, into crates/report/assets
	cd ui && npm ci --no-audit --no-fund && npm run build

view: ## Renew the page's TypeScript types (ui/src/core/view.ts) from the Rust types
	BELLOWS_RENEW_VIEW=1 cargo test --workspace --lib view::typescript

keys: ## Renew docs/keys.md from the types of an experiment
	BELLOWS_RENEW_KEYS=1 cargo test --workspace --test keys

pictures: setup build ## Remake the pictures of the documents from a run against a real RabbitMQ
	scripts/pictures

setup: ## Install the packages that the tests need, and a Node where it is too old
	scripts/setup test

test: setup test-rust test-ui ## Run every test

test-rust:
	scripts/test

test-ui:
	cd ui && npm ci --no-audit --no-fund && npm run check && npm test && npm run verify

prove: setup ## BELLOWS_SEEDS (1,000) random loads from BELLOWS_FIRST_SEED (0) on, and all that is slow: docs, packages; RabbitMQ 4 from BELLOWS_RABBITMQ_ROOT
	BELLOWS_SEEDS=$${BELLOWS_SEEDS:-1000} cargo test --workspace --test injected -- --nocapture
	BELLOWS_SEEDS=$${BELLOWS_SEEDS:-1000} cargo test --workspace --test proof -- --nocapture
	BELLOWS_SEEDS=$${BELLOWS_STALLS:-100} cargo test --workspace --test stalls -- --nocapture
	BELLOWS_SEEDS=$${BELLOWS_SEEDS:-1000} cargo test -p erlang --test clean -- --nocapture
	BELLOWS_SEEDS=$${BELLOWS_LOOKS:-200} cargo test -p bellows --test erlang_kills -- --nocapture
	BELLOWS_WITHIN=1.1 cargo test -p erlang --test numbers -- --nocapture eprof
	cargo test --workspace --test formats -- --include-ignored
	BELLOWS_SEEDS=$${BELLOWS_SEEDS:-1000} cargo test --workspace --test slower_function -- --nocapture
	cargo test -p bellows --test rabbitmq_4 -- --include-ignored --nocapture --test-threads 1
	BELLOWS_PAIRS=$${BELLOWS_PAIRS:-5} cargo test -p bellows --test ab_rabbitmq -- --nocapture
	BELLOWS_PAIRS=$${BELLOWS_PAIRS:-8} cargo test -p bellows --test ab_known -- --include-ignored --nocapture --test-threads 1
	scripts/walk
	$(MAKE) --no-print-directory dist && scripts/dist try

lint: ## Formatting and lints, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: build ## Compare speed and cost with other tools, in one run
	cargo run --profile bench -p bellows-bench --features peers -- $(BENCH_ARGS)

bench-check: ## The bench compiles with its peers, where these, Cargo.lock or the compiler changed; lint looks at the rest
	scripts/bench-check

soak: ## 1,000 connections for SOAK_MINUTES (30): flat memory, no descriptor left open
	cargo test --release -p bellows --test soak -- --include-ignored --nocapture

fuzz: ## Fuzz every decoder for FUZZ_SECONDS each (needs nightly and cargo-fuzz)
	@for target in $$(cd fuzz && cargo +nightly fuzz list); do \
		echo "== $$target" && (cd fuzz && cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS)) || exit 1; \
	done

clean:
	cargo clean
	rm -rf ui/node_modules
