# Torus224. `make help` lists the targets.
#
# Variables: EXP=5 (1…6, reference, flash, he, goyal, smith, akiba, jia, kumar; a list for sweep), ARGS="optim.lr=2.0"
# (Hydra overrides), WORKERS=, NODES=, SITE=, GROUP=, DATA=, IMAGE=, RESUME=runs/…, RUN=runs/…, RUNS= (report),
# FOLLOW=1, RANK=, REPORT=1, FROM=, PROCESSES=, PLOT=, format=json and explain=true (estimate), BASE=, BUILDER= and
# SMALL=1 (image).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.DELETE_ON_ERROR:

include versions.env

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := data/sample/manifest.json

# What is in these, no shell and no make reads: recipes take them from their environment, as "$${RUN-}"; one that is not
# given does not stand there, or a rank would find an empty RANK. ARGS is shell words.
texts := EXP SITE WORKERS NODES RESUME GROUP DATA IMAGE RUN RUNS RANK JSON PLOT FROM PROCESSES BASE BUILDER \
    format explain
$(foreach name,$(texts),$(if $(value $(name)),$(eval override $(name) := $$(value $(name)))$(eval export $(name))))

# A command with the words of EXP, SITE, … and then ARGS; `site` is this machine where SITE= names none.
with-words = $(BIN)/python -m jobs.words_of_make
words = {} $(ARGS)
site = $(if $(SITE),,site=local)

bench-files = $(if $(JSON),--json "$${JSON-}") $(if $(PLOT),--plot "$${PLOT-}")

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'
	echo
	echo '  EXP=5 (the default; 1 to 6, reference, flash, he, goyal, smith, akiba, jia, kumar)'
	echo '  ARGS="optim.lr=2.0" (any key of conf/), WORKERS=2, RESUME=runs/…, RUN=runs/…'

.PHONY: setup
setup: $(VENV)/.complete  ## make .venv from requirements.lock (done by every target that needs it)

$(VENV)/.complete: requirements.lock
	@version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])') || { echo 'error: $(PYTHON) does not run; Python $(PYTHON_VERSION) is needed, name it with PYTHON=' >&2; exit 1; }
	[ "$$version" = "$(PYTHON_VERSION)" ] || { echo "error: Python $(PYTHON_VERSION) is needed and $(PYTHON) is $$version; name another with PYTHON=" >&2; exit 1; }
	$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { echo 'error: this Python cannot make virtual environments; install python3-venv' >&2; exit 1; }
	echo 'setting up .venv: about 7 GB of packages, a few minutes, once'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	touch $@

.PHONY: sample
sample: $(SAMPLE)  ## write the sample's images into shards (done by train and sweep)

$(SAMPLE): $(VENV)/.complete pipeline/data/sample.py pipeline/data/shards.py pipeline/data/shard_writer.py
	@echo 'writing the sample: 5,000 digits as JPEGs in shards, once'
	$(BIN)/python -m pipeline.data.sample data/sample

.PHONY: prepare
prepare: $(VENV)/.complete  ## images into shards, once: DATA=/data/imagenet FROM=/tars PROCESSES=8 ARGS="prepare.shorter_side=256"
	@test -n "$${DATA-}" && test -n "$${FROM-}" || { echo 'error: name both folders: make prepare DATA=/data/imagenet FROM=/where/the/tars/are' >&2; exit 1; }
	$(BIN)/python -m pipeline.data.prepare --data="$${DATA-}" --from="$${FROM-}" $(if $(PROCESSES),--processes="$${PROCESSES-}") $(ARGS)

.PHONY: train
train: $(VENV)/.complete $(SAMPLE)  ## train on this machine: EXP=5, ARGS=, or go on with RESUME=runs/…
	@case "$${SITE-}" in "" | local) ;; *) echo "error: make train runs here; for the site $${SITE-} take make submit" >&2; exit 1 ;; esac
	$(with-words) jobs.submit $(site) $(words)

.PHONY: render
render: $(VENV)/.complete  ## show a run without starting it: header, job script, configuration; EXP=5 SITE= NODES= ARGS=
	@$(with-words) jobs.render $(site) $(words)

.PHONY: estimate
estimate: $(VENV)/.complete  ## what a run would take at a site: EXP=2 SITE=abci PLOT=FILE ARGS="format=json explain=true"
	@$(with-words) jobs.estimate $(site) $(if $(PLOT),--plot="$${PLOT-}") $(if $(RUN),--run="$${RUN-}") $(if $(format),"format=$${format-}") $(if $(explain),"explain=$${explain-}") $(words)

.PHONY: doctor
doctor: $(VENV)/.complete  ## look before submitting: scheduler, image, MPI, data, folders; SITE= GROUP= DATA= IMAGE=
	@$(with-words) jobs.doctor $(site) $(words)

.PHONY: submit
submit: $(VENV)/.complete  ## give a run to a cluster's scheduler and return: EXP=5 SITE=abci3 NODES=16 GROUP= DATA= IMAGE=
	@case "$${SITE-}" in "" | local) echo 'error: name the cluster: make submit SITE=slurm (conf/site/ lists them); make train runs here' >&2; exit 1 ;; esac
	$(with-words) jobs.submit $(words)

.PHONY: sweep
sweep: $(VENV)/.complete $(SAMPLE)  ## a Hydra multirun, here or at SITE=: EXP=reference,2,5,6 ARGS=
	@$(with-words) jobs.submit --multirun $(site) $(words)

.PHONY: status
status: $(VENV)/.complete  ## all runs in a table, or some: RUN="runs/… runs/…" ARGS="--json"
	@$(BIN)/python -m jobs.status $(ARGS) -- $${RUN-}

.PHONY: logs
logs: $(VENV)/.complete  ## show a run's log, or follow it until the run ends: RUN=runs/… FOLLOW=1 RANK=3 ARGS="--lines 50"
	@test -n "$${RUN-}" || { echo 'error: name the run: make logs RUN=runs/…' >&2; exit 1; }
	$(BIN)/python -m jobs.logs $(if $(FOLLOW),--follow) $(if $(RANK),--rank="$${RANK-}") $(ARGS) -- "$${RUN-}"

.PHONY: cancel
cancel: $(VENV)/.complete  ## end runs for good, and take their jobs out of the queue: RUN="runs/… runs/…"
	@test -n "$${RUN-}" || { echo 'error: name the run: make cancel RUN=runs/…' >&2; exit 1; }
	$(BIN)/python -m jobs.cancel -- $${RUN-}

.PHONY: resubmit
resubmit: $(VENV)/.complete  ## go on with a cluster's run that ended before its end: RUN=runs/… ARGS="site.wall_time=2:00:00"
	@test -n "$${RUN-}" || { echo 'error: name the run: make resubmit RUN=runs/…' >&2; exit 1; }
	$(with-words) jobs.resubmit -- "$${RUN-}" $(words)

.PHONY: scaling
scaling: $(VENV)/.complete $(SAMPLE)  ## scaling efficiency, real and synthetic images: SITE=abci3 NODES=1,2,4 (here WORKERS=1,2), then REPORT=1
	@$(if $(REPORT),$(BIN)/python -m jobs.scaling --report -- $${RUN-},$(with-words) jobs.scaling $(site) $(words))

.PHONY: report
report: $(VENV)/.complete  ## the paper's tables and Figure 3 from runs, as HTML and Markdown: RUNS="runs/… runs/…" ARGS="report.dir=…"
	@$(BIN)/python -m jobs.report $(ARGS) -- $${RUNS-}

.PHONY: study
study: $(VENV)/.complete  ## scale models of all experiments over seeds, about two hours, resumable: ARGS="--report", "--calibrate"
	@$(BIN)/python -m jobs.study $(ARGS)

.PHONY: evaluate
evaluate: $(VENV)/.complete  ## validate a run's newest checkpoint again: RUN=runs/…
	@test -n "$${RUN-}" || { echo 'error: name the run: make evaluate RUN=runs/…' >&2; exit 1; }
	$(BIN)/python -m pipeline.evaluate $(ARGS) -- "$${RUN-}"

.PHONY: plot
plot: $(VENV)/.complete  ## draw a run's training, or several together: RUN="runs/… runs/…"
	@test -n "$${RUN-}" || { echo 'error: name the run: make plot RUN=runs/…' >&2; exit 1; }
	$(BIN)/python -m pipeline.report.plot $(ARGS) -- $${RUN-}

.PHONY: pictures
pictures: $(VENV)/.complete  ## draw the pictures of docs/pictures/ again
	@$(BIN)/python -m pipeline.report.torus_picture

.PHONY: bench
bench: bench-step bench-allreduce  ## the trainer's step against a bare loop, and all all-reduces on this machine

.PHONY: bench-step
bench-step: $(VENV)/.complete $(SAMPLE)  ## the trainer's step against a bare loop
	@$(BIN)/python -m bench.step $(ARGS)

.PHONY: bench-allreduce
bench-allreduce: $(VENV)/.complete  ## all all-reduces between four workers on this machine: JSON=FILE PLOT=FILE
	@$(BIN)/python -m bench.allreduce $(bench-files) $(if $(filter bench-allreduce,$(MAKECMDGOALS)),$(ARGS))

.PHONY: bench-network
bench-network: $(VENV)/.complete  ## all all-reduces on emulated hosts with shaped links (root): JSON=FILE PLOT=FILE ARGS=
	@$(BIN)/python -m bench.network $(bench-files) $(ARGS)

.PHONY: bench-gpu
bench-gpu: $(VENV)/.complete $(SAMPLE)  ## what only a GPU can show: NCCL, stream order, decoding, images/s of ResNet-50
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.gpu $(ARGS)

.PHONY: bench-loader
bench-loader: $(VENV)/.complete $(SAMPLE)  ## the loader against torch's DataLoader, plain DALI and WebDataset: JSON=FILE
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench.loader $(if $(JSON),--json "$${JSON-}") $(ARGS)

.PHONY: bench-exchange
bench-exchange: $(VENV)/.complete $(SAMPLE)  ## the exchange of samples between nodes against MPI's Alltoallv alone
	@$(BIN)/python -m bench.exchange $(ARGS)

.PHONY: bench-estimate
bench-estimate: $(VENV)/.complete  ## how long the estimate takes: all grids of 100,000 GPUs, and the whole command
	@$(BIN)/python -m bench.estimate

.PHONY: calibrate
calibrate: $(VENV)/.complete  ## measure this machine, or the allocation at hand, into a site's profile: ARGS="--output conf/site/mine.yaml"
	@$(BIN)/python -m bench.calibrate $(ARGS)

.PHONY: image
image: $(VENV)/.complete  ## build the image by docker, buildah or podman: BASE=…@sha256:…, or debootstrap (root); BUILDER= SMALL=1
	@$(BIN)/python -m jobs.image.build $(if $(BASE),--base="$${BASE-}") $(if $(BUILDER),--builder="$${BUILDER-}") $(if $(SMALL),--small) $(ARGS)

.PHONY: sif
sif: $(VENV)/.complete  ## wrap the image into build/torus224.sif by apptainer or singularity: FROM=docker-daemon:… SMALL=1
	@$(BIN)/python -m jobs.image.sif $(if $(FROM),--from="$${FROM-}") $(if $(SMALL),--small) $(ARGS)

.PHONY: image-test
image-test: $(VENV)/.complete $(SAMPLE)  ## try the image: contents, %test, ranks by both mpiruns, the scale model; IMAGE= SMALL=1
	@$(BIN)/python -m jobs.image.check $(if $(IMAGE),--sif="$${IMAGE-}") $(if $(SMALL),--small) $(ARGS)

.PHONY: lint-image
lint-image: $(VENV)/.complete  ## hadolint, and a look at Singularity.def
	@$(BIN)/python -m jobs.image.lint

.PHONY: lint
lint: $(VENV)/.complete  ## ruff (check and format) and mypy
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(VENV)/.complete  ## let ruff format and mend
	@$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: test
test: lint $(SAMPLE)  ## lint and all tests but the long ones
	@$(BIN)/python -m pytest -m 'not long' --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: test-long
test-long: $(VENV)/.complete $(SAMPLE)  ## the tests that take minutes
	@$(BIN)/python -m pytest -m long $(ARGS)

.PHONY: clean
clean:  ## remove .venv, the sample, what make image left and caches; runs stay
	@rm -rf $(VENV) data/sample build .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
