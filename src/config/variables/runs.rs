//! What a run may take, how many there may be, and what stays warm after it.

use crate::config::variable::{Variable, variable};

pub(super) const RUNS: &[Variable] = &[
    variable(
        "RUN_TIMEOUT",
        "30s",
        "time limit of a run that does not ask for one",
    ),
    variable(
        "RUN_TIMEOUT_MAX",
        "300s",
        "longest time limit that a run may ask for",
    ),
    variable(
        "RUN_CPUS",
        "0.5",
        "processor cores of one run, at most those of the engine; 0: no limit",
    ),
    variable(
        "RUN_MEMORY",
        "256m",
        "memory of one run, including its /tmp",
    ),
    variable("RUN_PIDS", "128", "processes and threads of one run"),
    variable(
        "RUN_OUTPUT_LIMIT",
        "1m",
        "bytes kept of standard output, and as many of standard error",
    ),
    variable(
        "RUN_FILE_SIZE",
        "256m",
        "largest single file that a run may write",
    ),
    variable("MAX_CODE_BYTES", "1m", "largest program"),
    variable(
        "CALL_BUDGET",
        "45s",
        "how long `run_code` waits before it answers `running`, plus 5 s for runs whose time limit is no longer than this; also the longest wait of one `get_run`",
    ),
    variable(
        "OUTPUT_FOR_MODEL",
        "30000",
        "characters of output in one answer; `get_run` reads the rest",
    ),
    variable(
        "MAX_CONCURRENT_RUNS",
        "",
        "runs at the same time, at most half of them loading large libraries; default: four per core, as far as they fit into three quarters of the memory",
    ),
    variable(
        "MAX_RUNS_PER_CONVERSATION",
        "",
        "runs of one conversation at the same time; default: half of MAX_CONCURRENT_RUNS",
    ),
    variable(
        "MAX_QUEUED_RUNS",
        "64",
        "runs that may wait for a place, at most half of them from one conversation; more are answered `busy`",
    ),
    variable("MAX_QUEUE_WAIT", "30s", "longest wait for a place"),
    variable(
        "POOL_SIZE",
        "",
        "warm sandboxes per runner that wait for a new conversation, or for some languages only, such as `python=2,shell=1`; default: 2, and of Python as many light ones as fit into a 24th of the memory",
    ),
    variable(
        "SANDBOX_IDLE_TTL",
        "5m",
        "how long a conversation without runs keeps its warm sandbox",
    ),
    variable(
        "SANDBOX_LOADED_TTL",
        "5m",
        "how long that sandbox keeps large libraries that none of its programs has named; the one that names them next waits for them",
    ),
    variable(
        "MAX_WARM_SANDBOXES",
        "",
        "warm sandboxes in total; default: as many light ones as fit into a quarter of the memory, from 4 to 256. Half of the memory may be taken by large libraries while nothing runs, until it is short",
    ),
    variable(
        "SANDBOX_REUSE",
        "conversation",
        "`conversation`: a conversation's next run gets its sandbox again, cleaned; `never`: every run that is not stateful gets a new one",
    ),
    variable(
        "MAX_KERNELS",
        "10",
        "kernels of stateful runs in total, each a sandbox of its own; the least recently used makes room; 0: none",
    ),
    variable(
        "KERNEL_TIMEOUT",
        "300s",
        "how long a kernel without runs is kept, and its variables with it",
    ),
];
