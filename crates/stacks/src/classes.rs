//! Classes of samples, by kind of code: each stack is of one class. Rules are data (`classes.txt`), not code.
//!
//! A rule is one line, `KIND FUNCTION [in MODULE] -> CLASS`. The innermost frame that a rule matches decides. Frames
//! that no rule matches count for their callers, as their place in the stack tells: C code that Erlang code calls is a
//! built-in function, whatever its name; kernel code that no class asks for is the kernel's own; C code of the virtual
//! machine that nobody with a class calls has none, and no name where its build is stripped.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::frames::{Frame, FrameKind, INTERPRETED, is_first_function, is_root_function, without_copies};
use super::model::Profile;
use super::pattern::{FramePattern, rules, symbol};
use crate::summary::{Class, ClassShare, LanguageShare};

/// Beginning of the names of an Erlang emulator's program.
const BEAM: &str = "beam.";
/// The library that a Java virtual machine is.
const JVM: &str = "libjvm.so";
const BUILT_IN: &str = include_str!("classes.txt");
/// In place of a class: a frame that counts for its caller.
const CALLER: &str = "its caller";

#[derive(Clone, Debug)]
pub(super) struct Rule {
    frame: FramePattern,
    /// `None` where the frame counts for its caller.
    class: Option<Class>,
}

impl Rule {
    /// The first rule that matches a frame.
    fn of(frame: &Frame) -> Option<&'static Self> {
        // A test reads the built-in text, so the fallback is never taken.
        static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| rules(BUILT_IN, rule).unwrap_or_default());
        let name = symbol(frame);
        RULES.iter().find(|rule| rule.frame.matches(frame, name))
    }
}

pub(super) fn rule(text: &str) -> Option<Rule> {
    let (frame, class) = text.rsplit_once("->")?;
    let class = match class.trim() {
        CALLER => None,
        name => Some(Class::ALL.into_iter().find(|class| class.name() == name)?),
    };
    Some(Rule { frame: FramePattern::new(frame)?, class })
}

/// Effect of a frame on its stack's class.
#[derive(Clone, Copy)]
enum FrameClass {
    /// A rule says it.
    Decides(Class),
    /// Code of the kernel.
    Kernel,
    /// C code of a virtual machine, and whether it has a name.
    Machine(bool),
    /// Counts for its caller.
    Transparent,
    /// Machine code of the program itself.
    Own,
    /// Code of which nothing is known.
    Unnamed,
}

impl FrameClass {
    fn of(frame: &Frame, jit: Option<Class>) -> Self {
        if let Some(rule) = Rule::of(frame) {
            return rule.class.map_or(Self::Transparent, Self::Decides);
        }
        // The module may be known where the function is not.
        let kind = match frame.kind {
            FrameKind::Unknown => Frame::kind_of_module(&frame.module),
            kind => kind,
        };
        match (kind, jit) {
            (FrameKind::Kernel, _) => Self::Kernel,
            // What stands in brackets is no name of a function.
            (FrameKind::Runtime, _) => Self::Machine(!frame.name.starts_with('[')),
            (FrameKind::Libc, _) => Self::Transparent,
            (_, Some(jit)) if frame.module == "[jit]" => Self::Decides(jit),
            _ if frame.module.starts_with("[kernel") => Self::Kernel,
            _ if frame.module.contains(".so") => Self::Decides(Class::Libraries),
            _ if frame.kind == FrameKind::Native => Self::Own,
            // A file, and neither nothing nor memory that code was written to.
            _ if !frame.module.is_empty() && !frame.module.starts_with('[') => Self::Own,
            _ => Self::Unnamed,
        }
    }

    /// The class of a stack that ends in this frame, by its caller's; `None` where only a thread's start is known.
    fn below(self, caller: Option<Class>) -> Option<Class> {
        match (self, caller) {
            (Self::Decides(class), _) => Some(class),
            (Self::Kernel | Self::Own, Some(caller)) if !caller.is_of_code() => Some(caller),
            (Self::Kernel, _) => Some(Class::KernelOther),
            (Self::Own, _) => Some(Class::OwnCode),
            (Self::Machine(_) | Self::Transparent, Some(Class::ErlangCode)) => Some(Class::BuiltInFunctions),
            (Self::Machine(_), Some(Class::JavaCode)) => Some(Class::VirtualMachine),
            (Self::Machine(named), None | Some(Class::OwnCode | Class::VirtualMachine | Class::Unnamed)) => {
                Some(if named { Class::VirtualMachine } else { Class::Unnamed })
            }
            (Self::Machine(_) | Self::Transparent, caller) => caller,
            (Self::Unnamed, _) => Some(Class::Unnamed),
        }
    }
}

impl Profile {
    /// The class of each stack, by its index. Each frame is looked at once, and each stack.
    pub fn classes(&self) -> Vec<Class> {
        let jit = self.frames.iter().find_map(|frame| match frame.module.as_str() {
            JVM => Some(Class::JavaCode),
            module if module.starts_with(BEAM) => Some(Class::ErlangCode),
            _ => None,
        });
        let parts: Vec<FrameClass> = self.frames.iter().map(|frame| FrameClass::of(frame, jit)).collect();
        let classes = self.per_stack(|caller: Option<Option<Class>>, node| {
            parts.get(node.frame as usize).copied().unwrap_or(FrameClass::Unnamed).below(caller.flatten())
        });
        // The start of a thread is the C library's.
        classes.into_iter().map(|class| class.unwrap_or(Class::Libraries)).collect()
    }

    /// Shares of classes: every sample counts for one. The largest share first; empty without samples.
    pub fn class_shares(&self) -> Vec<ClassShare> {
        let classes = self.classes();
        let class_of = |stack: u32| classes.get(stack as usize).copied();
        let sum = self.total_weight().max(1) as f64;
        let sums = self.sums(|sample| class_of(sample.stack).unwrap_or(Class::Unnamed));
        let shares = sums.into_iter().map(|(class, weight)| ClassShare { class, share: weight as f64 / sum, weight });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by_key(|it| std::cmp::Reverse(it.weight));
        shares
    }
}

/// Effect of a frame on the function of a language that a sample counts for: the innermost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanguageFrame {
    /// Native code, shared fragments of a JIT, a language's runtime: they count for their caller.
    Other,
    /// A function of Erlang, Java or Go.
    Function,
    /// The loop of a scheduler, which nothing above called.
    First,
}

impl LanguageFrame {
    /// The effect of a frame; `go` holds the modules that are Go programs.
    fn of(frame: &Frame, go: &HashSet<&str>) -> Self {
        let name = frame.name.as_str();
        let is_function = match frame.kind {
            FrameKind::Erlang => !Frame::is_of_jit(name),
            // Stubs and adapters have blanks in their names, or no class.
            FrameKind::Java => name == INTERPRETED || (name.contains('.') && !name.contains(' ')),
            FrameKind::Native => go.contains(frame.module.as_str()) && is_go_function(name),
            _ => false,
        };
        match is_function {
            _ if is_first_function(name) => Self::First,
            true => Self::Function,
            false => Self::Other,
        }
    }
}

/// Whether a frame is one of Go's runtime that only Go programs have.
fn is_of_go(frame: &Frame) -> bool {
    let name = frame.name.as_str();
    let is_root = is_root_function(name) && name.starts_with("runtime.");
    frame.kind == FrameKind::Native && (is_root || name == "runtime.main")
}

/// Whether a function of a Go program is written in Go, and neither part of the runtime nor a system call.
fn is_go_function(name: &str) -> bool {
    const RUNTIME: [&str; 6] = ["runtime.", "runtime/", "internal/runtime/", "syscall.", "type:", "go:"];
    // Functions in C and in assembler are of no package, whose path may have dots, too.
    let last = without_copies(name).rsplit('/').next();
    let in_package = last.is_some_and(|it| it.contains('.'));
    in_package && !name.starts_with('[') && !RUNTIME.iter().any(|it| name.starts_with(it))
}

impl Profile {
    /// Per frame its effect on the function of the language that a sample counts for.
    pub fn language_frames(&self) -> Vec<LanguageFrame> {
        let frames = self.frames.iter();
        let go: HashSet<&str> = frames.filter(|frame| is_of_go(frame)).map(|frame| frame.module.as_str()).collect();
        let mut effects: Vec<LanguageFrame> = self.frames.iter().map(|frame| LanguageFrame::of(frame, &go)).collect();
        if !go.is_empty() {
            for frame in self.called_by_cgo() {
                if let Some(effect) = effects.get_mut(frame as usize) {
                    *effect = LanguageFrame::Other;
                }
            }
        }
        effects
    }

    /// Native frames that Go called as C, whatever their names, and that have not called Go back.
    fn called_by_cgo(&self) -> HashSet<u32> {
        let mut found = HashSet::new();
        self.per_stack(|above, node| {
            let above = above.unwrap_or(false);
            let frame = self.frames.get(node.frame as usize);
            let name = frame.map_or("", |it| it.name.as_str());
            let begins = |names: [&str; 2]| names.iter().any(|it| name.starts_with(it));
            let calls_back = name.starts_with("runtime.cgocallback");
            let is_native = frame.is_some_and(|it| it.kind == FrameKind::Native);
            if above && !calls_back && is_native && !is_first_function(name) {
                found.insert(node.frame);
            }
            !calls_back && (above || begins(["runtime.cgocall", "runtime.asmcgocall"]))
        });
        found
    }

    /// Name of a class where no function of the language is the caller: `garbage collection in beam.smp`.
    pub fn class_label(&self, class: Class) -> String {
        let mut modules = self.frames.iter().map(|frame| frame.module.as_str());
        let machine = modules.find(|it| *it == JVM || it.starts_with(BEAM));
        match machine.filter(|_| class.is_of_machine()) {
            Some(machine) => format!("{class} in {machine}"),
            None => class.name().to_owned(),
        }
    }

    /// Per stack the frame of the innermost function of the language; `None` where there is none.
    pub(super) fn innermost_functions(&self) -> Vec<Option<u32>> {
        let frames = self.language_frames();
        self.per_stack(|above: Option<Option<u32>>, node| match frames.get(node.frame as usize) {
            Some(LanguageFrame::Function) => Some(node.frame),
            Some(LanguageFrame::First) => None,
            Some(LanguageFrame::Other) | None => above.flatten(),
        })
    }

    /// The samples by the innermost function of Erlang, Java or Go in their stacks, and by class where there is none;
    /// all samples are in one of the rows. The largest first, then by name; empty where no sample has such a function.
    pub fn language_functions(&self) -> Vec<LanguageShare> {
        let (functions, classes) = (self.innermost_functions(), self.classes());
        let sums = self.sums(|sample| {
            let stack = sample.stack as usize;
            let class = classes.get(stack).copied();
            let function = functions.get(stack).copied();
            (function.flatten(), class.unwrap_or(Class::Unnamed))
        });
        if sums.iter().all(|((function, _), _)| function.is_none()) {
            return Vec::new();
        }
        let all = self.total_weight().max(1) as f64;
        // They come in the order of functions; without one each class is a row.
        let rows = sums.chunk_by(|a, b| a.0.0.is_some() && a.0.0 == b.0.0).filter_map(|parts| {
            let &((function, class), _) = parts.first()?;
            let named = function.and_then(|it| self.frames.get(it as usize));
            let weight = parts.iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
            let share = |weight: u64| weight as f64 / all;
            let classes = parts.iter().map(|&((_, class), weight)| ClassShare { class, share: share(weight), weight });
            let mut classes: Vec<ClassShare> = classes.collect();
            classes.sort_by_key(|it| std::cmp::Reverse(it.weight));
            Some(LanguageShare {
                function: named.map_or_else(|| self.class_label(class), |it| it.name.clone()),
                class: function.is_none().then_some(class),
                share: share(weight),
                weight,
                classes,
            })
        });
        let mut rows: Vec<LanguageShare> = rows.collect();
        rows.sort_by(|a, b| {
            let by_name = || a.function.cmp(&b.function);
            b.weight.cmp(&a.weight).then_with(by_name)
        });
        rows
    }
}
