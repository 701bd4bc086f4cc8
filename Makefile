# Two commands do all the set-up: `make demo` and `make test`.
.DEFAULT_GOAL := help
.PHONY: help demo build install dist ui view keys ends pictures setup test test-rust test-ui prove lint bench bench-check soak fuzz clean

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
	@cargo build --profile quick -p bellows --no-default-features
	@if scripts/setup demo >/dev/null 2>&1; then $(QUICK) demo --rate 5000 --set broker.kind=rabbitmq --set load.0.queue-type=stream; else $(QUICK) demo; fi
	@echo 'demo: to go on, call it by its name: PATH="$$PWD/target/quick:$$PATH"' >&2

install: ## Install binary, manual pages and completions below PREFIX (/usr/local); DESTDIR goes before it; SETCAP=1 lets ordinary users profile
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory build; fi
	@scripts/install "$(DESTDIR)$(PREFIX)" $(BELLOWS)

dist: ## Make a static binary in a tar file, and a Debian package of it, in target/dist
	@scripts/setup dist
	@scripts/dist

# What npm has installed last, and from what.
PACKAGES := ui/node_modules/.package-lock.json

$(PACKAGES): ui/package-lock.json
	cd ui && npm ci --no-audit --no-fund

ui: $(PACKAGES) ## Build the report's page anew, into crates/report/assets
	cd ui && npm run build

view: ## Renew the page's TypeScript types (ui/src/core/view.ts) from the Rust types
	BELLOWS_RENEW_VIEW=1 cargo test --workspace --lib view::typescript

keys: ## Renew docs/keys.md from the types of an experiment
	BELLOWS_RENEW_KEYS=1 cargo test -p session --test all keys

ends: ## Renew the goldens of the end of a run (crates/report/src/console/tests/brief)
	BELLOWS_RENEW_ENDS=1 cargo test -p report --lib console::tests::brief

pictures: setup build ## Remake the pictures of the documents from a run against a real RabbitMQ
	scripts/pictures

setup: ## Install the packages that the tests need, and a Node where it is too old
	scripts/setup test

# Further targets that run beside the tests, such as "bench-check".
BESIDE ?=

test: ## Install what the tests need while they are compiled, and run every test
	@scripts/setup compile
	scripts/test --before 'scripts/setup test' $(foreach target,test-ui $(BESIDE),--beside '$(MAKE) --no-print-directory $(target)')

test-rust: ## Run the Rust tests; ARGS are options of `cargo nextest run`
	scripts/test $(ARGS)

test-ui: $(PACKAGES)
	cd ui && npm run check && npm test && npm run verify

prove: ## What proves statistically and what is slow (an hour), into docs/examples/proven.md; PARTS are some parts alone
	scripts/setup prove
	scripts/prove $(PARTS)

lint: ## Formatting and lints, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

bench: build ## Compare speed and cost with other tools, in one run
	cargo run --profile bench -p bellows-bench --features peers -- $(BENCH_ARGS)

bench-check: ## The bench compiles with its peers, where these, Cargo.lock or the compiler changed; lint looks at the rest
	scripts/bench-check

soak: ## 1,000 connections for SOAK_MINUTES (30): flat memory, no descriptor left open
	cargo test --release -p bellows --test all -- soak:: --include-ignored --nocapture

fuzz: ## Fuzz every decoder for FUZZ_SECONDS each (needs nightly and cargo-fuzz)
	@for target in $$(cd fuzz && cargo +nightly fuzz list); do \
		echo "== $$target" && (cd fuzz && cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS)) || exit 1; \
	done

clean:
	cargo clean
	rm -rf ui/node_modules
