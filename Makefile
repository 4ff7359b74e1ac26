# What each target does: make help. CI calls these targets and nothing else (.ci/run).

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZRUNS ?= 20000
SCENARIO ?= e2e
NODES    ?= 1
TIMEOUT  ?= 15m

suite  := deploy/tools/suite
nocgo  := CGO_ENABLED=0
# Tests named TestE2E drive the built binary; "make e2e" runs them, the other suites leave them out.
no_e2e := -skip '^TestE2E'

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run build test unit race e2e test-kafka fuzz bench lint vuln arrows tools tools-kafka tools-chdb full clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: tools-chdb build ## build and start everything on this machine, with sample events and receivers
	bin/hookline dev --demo

build: ## build bin/hookline
	$(nocgo) $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/hookline ./deploy/hookline

test: $(if $(RACE),race,unit) e2e test-kafka ## set up what is missing and run all tests, on the embedded broker and on Apache Kafka (RACE=1: the first half with the race detector)

unit: tools-chdb ## tests of all packages on the embedded broker
	@env -u HOOKLINE_TEST_BROKERS $(nocgo) $(suite) unit $(GO) test -shuffle=on -timeout $(TIMEOUT) $(no_e2e) ./...

race: tools-chdb ## the same with the race detector (needs a C compiler)
	@env -u HOOKLINE_TEST_BROKERS CGO_ENABLED=1 $(suite) race $(GO) test -race -shuffle=on -timeout $(TIMEOUT) $(no_e2e) ./...

e2e: tools-chdb ## end-to-end tests of the built binary on the embedded broker
	@env -u HOOKLINE_TEST_BROKERS $(nocgo) $(suite) e2e deploy/tools/e2e -timeout $(TIMEOUT)

test-kafka: tools-kafka tools-chdb ## tests that use a broker, end-to-end ones too, on a fresh Apache Kafka (NODES=1 or 3)
	@$(nocgo) $(suite) kafka deploy/tools/test-kafka $(NODES) -timeout $(TIMEOUT)

fuzz: ## every fuzz target for FUZZRUNS inputs (20000, a few seconds)
	@$(nocgo) $(suite) fuzz deploy/tools/fuzz $(FUZZRUNS)

bench: build ## benchmarks of the hot paths, then the scenario SCENARIO (e2e) of bench/
	@$(nocgo) $(suite) bench $(GO) test -run '^$$' -bench . -benchmem ./...
	@$(suite) bench-$(SCENARIO) bin/hookline bench $(SCENARIO)

lint: ## golangci-lint with .golangci.yml, go mod tidy as a check, ASCII
	@$(nocgo) $(suite) lint deploy/tools/lint

vuln: ## govulncheck: known vulnerabilities that the code reaches (asks the Go vulnerability database, or GOVULNDB)
	@$(nocgo) $(suite) vuln $(GO) tool -modfile=deploy/tools/go.mod govulncheck ./...

arrows: ## check which package may import which
	@$(suite) arrows deploy/tools/arrows

tools: tools-kafka tools-chdb ## bring the Kafka jars and libchdb.so to .tools/

tools-kafka: ## bring the jars of Apache Kafka (45 MB) through Maven
	@deploy/tools/kafka

tools-chdb: ## bring libchdb.so (170 MB), the embedded ClickHouse engine, through npm or pip
	@deploy/tools/chdb

full: export HOOKLINE_FULL = 1
full: TIMEOUT = 60m
full: FUZZRUNS = 1000000
full: ## everything, with the long seeds; also on three Kafka nodes
	$(MAKE) arrows lint
	$(MAKE) unit race e2e TIMEOUT=$(TIMEOUT)
	$(MAKE) test-kafka NODES=1 TIMEOUT=$(TIMEOUT)
	$(MAKE) test-kafka NODES=3 TIMEOUT=$(TIMEOUT)
	$(MAKE) fuzz FUZZRUNS=$(FUZZRUNS)
	$(MAKE) bench

clean: ## delete bin/ and .ci/out/; .tools/ stays
	rm -rf bin .ci/out
