//! The frames of addresses that were asked for before.

use std::collections::HashMap;

use crate::record::Address;

/// Addresses whose frames are kept.
const MOST_ADDRESSES: usize = 1 << 20;

/// Frames by address, and whether it is a return address.
type Frames = HashMap<(u64, bool), Box<[u32]>>;

/// Frames of the kernel, and of each process as long as its memory is the same.
#[derive(Default)]
pub(super) struct FrameCache {
    kernel: Frames,
    by_pid: HashMap<u32, KnownFrames>,
    /// The process that the next addresses are of, and the version of its memory.
    pid: u32,
    version: u64,
    /// Frames of all.
    len: usize,
}

struct KnownFrames {
    version: u64,
    frames: Frames,
}

impl FrameCache {
    /// The next addresses are of this process, with this version of its memory.
    pub(super) fn enter(&mut self, pid: u32, version: u64) {
        (self.pid, self.version) = (pid, version);
        // A table that is emptied stays as large as it was, and is gone through each time: it is replaced.
        if self
            .by_pid
            .get(&pid)
            .is_some_and(|it| it.version != version)
            && let Some(gone) = self.by_pid.remove(&pid)
        {
            self.len = self.len.saturating_sub(gone.frames.len());
        }
    }

    /// The frames of an address of the kernel or of the process, looked up where it is new.
    pub(super) fn frames(
        &mut self,
        address: Address,
        is_caller: bool,
        look_up: impl FnOnce() -> Box<[u32]>,
    ) -> &[u32] {
        if self.len > MOST_ADDRESSES {
            *self = Self {
                pid: self.pid,
                version: self.version,
                ..Self::default()
            };
        }
        let version = self.version;
        let (frames, ip) = match address {
            Address::Kernel(ip) => (&mut self.kernel, ip),
            Address::User(ip) => {
                let new = || KnownFrames {
                    version,
                    frames: Frames::new(),
                };
                let known = self.by_pid.entry(self.pid).or_insert_with(new);
                (&mut known.frames, ip)
            }
        };
        frames.entry((ip, is_caller)).or_insert_with(|| {
            self.len += 1;
            look_up()
        })
    }
}
