//! Patterns of frames, as the files of rules write them.

use super::frames::{Frame, FrameKind};
use super::pattern::Pattern;

/// Between a function and its module.
const IN: &str = " in ";

/// Pattern of a frame's kind, function and module.
#[derive(Clone, Debug)]
pub(super) struct FramePattern {
    /// `None` for any.
    kind: Option<FrameKind>,
    function: Pattern,
    module: Option<Pattern>,
}

impl FramePattern {
    /// Reads `KIND FUNCTION [in MODULE]`; `None` where the text is not that.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (kind, function) = text.trim().split_once(char::is_whitespace)?;
        let kind = match kind {
            "erlang" => Some(FrameKind::Erlang),
            "java" => Some(FrameKind::Java),
            "runtime" => Some(FrameKind::Runtime),
            "libc" => Some(FrameKind::Libc),
            "kernel" => Some(FrameKind::Kernel),
            "native" => Some(FrameKind::Native),
            "any" => None,
            _ => return None,
        };
        let (function, module) = match function.split_once(IN) {
            Some((function, module)) => (function, Some(Pattern::new(module.trim()))),
            None => (function, None),
        };
        Some(Self {
            kind,
            function: Pattern::new(function.trim()),
            module,
        })
    }

    /// Whether it matches a frame with this [`symbol`].
    pub(super) fn matches(&self, frame: &Frame, symbol: &str) -> bool {
        let module = self.module.as_ref();
        self.kind.is_none_or(|kind| kind == frame.kind)
            && self.function.matches(symbol)
            && module.is_none_or(|it| it.matches(&frame.module))
    }
}

/// A C function's name without what compilers (`.isra.0`) and perf (`_[k]`) append to it.
pub(super) fn symbol(frame: &Frame) -> &str {
    let name = frame.name.as_str();
    match frame.kind {
        FrameKind::Kernel | FrameKind::Runtime | FrameKind::Libc if !frame.is_near() => {
            let name = name.strip_suffix("_[k]").unwrap_or(name);
            name.split_once('.').map_or(name, |(name, _)| name)
        }
        _ => name,
    }
}
