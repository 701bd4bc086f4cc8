//! pprof (`profile.pb.gz`), which `go tool pprof`, speedscope, Pyroscope and Parca read.
//!
//! Two values per sample: `samples/count` and, where a sample stands for CPU time,
//! `cpu/nanoseconds`. Samples of one stack and thread are summed up, so times are not kept; the
//! `.stacks` file keeps them. Stacks that do not reach their root carry the label `stack: cut off`, those
//! that an Erlang process ran its name as `process`, times off CPU why they ended as `reason` and who ended them as
//! `waker`.

mod proto;
mod read;
mod write;

pub(super) use read::read;

/// Label keys and values.
const LABEL_THREAD: &str = "thread";
const LABEL_STACK: &str = "stack";
const LABEL_PROCESS: &str = "process";
const LABEL_REASON: &str = "reason";
const LABEL_WAKER: &str = "waker";
const CUT_OFF: &str = "cut off";
