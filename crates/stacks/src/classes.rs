//! Classes of samples, by kind of code: each stack is of one class. Rules are data (`classes.txt`), not code.
//!
//! A rule is one line, `KIND FUNCTION [in MODULE] -> CLASS`. The innermost frame that a rule matches decides. Frames
//! that no rule matches count for their callers, as their place in the stack tells: C code that Erlang code calls is a
//! built-in function, whatever its name; kernel code that no class asks for is the kernel's own; C code of the virtual
//! machine that nobody with a class calls has none, and no name where its build is stripped.

use std::sync::OnceLock;

use thiserror::Error;

use super::frames::{Frame, FrameKind};
use super::model::Profile;
use super::pattern::{FramePattern, symbol};
use crate::summary::{Class, ClassShare};

const BUILT_IN: &str = include_str!("classes.txt");
/// In place of a class: a frame that counts for its caller.
const CALLER: &str = "its caller";

/// A table of rules.
#[derive(Clone, Debug, Default)]
pub struct ClassRules {
    rules: Vec<Rule>,
}

/// A rule that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "line {line} of the classes is `{text}`: a rule is written KIND FUNCTION [in MODULE] -> CLASS"
)]
pub struct ClassRulesError {
    /// Counted from 1.
    pub line: usize,
    /// As it stands there.
    pub text: String,
}

#[derive(Clone, Debug)]
struct Rule {
    frame: FramePattern,
    /// `None` where the frame counts for its caller.
    class: Option<Class>,
}

impl ClassRules {
    /// The rules that all outputs use.
    pub fn built_in() -> &'static Self {
        static RULES: OnceLock<ClassRules> = OnceLock::new();
        // A test parses the built-in text, so the fallback is never taken.
        RULES.get_or_init(|| Self::parse(BUILT_IN).unwrap_or_default())
    }

    /// Rules from text; empty lines and lines that begin with `//` are skipped.
    ///
    /// # Errors
    /// The first line that is not a rule.
    pub fn parse(text: &str) -> Result<Self, ClassRulesError> {
        let lines = text
            .lines()
            .zip(1..)
            .map(|(line, number)| (line.trim(), number));
        let rules = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with("//"));
        let rules = rules.map(|(text, line)| {
            rule(text).ok_or_else(|| ClassRulesError {
                line,
                text: text.to_owned(),
            })
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// The first rule that matches a frame.
    fn of(&self, frame: &Frame) -> Option<&Rule> {
        let name = symbol(frame);
        self.rules
            .iter()
            .find(|rule| rule.frame.matches(frame, name))
    }
}

fn rule(text: &str) -> Option<Rule> {
    let (frame, class) = text.rsplit_once("->")?;
    let class = match class.trim() {
        CALLER => None,
        name => Some(Class::ALL.into_iter().find(|class| class.name() == name)?),
    };
    Some(Rule {
        frame: FramePattern::new(frame)?,
        class,
    })
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
    fn of(frame: &Frame, rules: &ClassRules, jit: Option<Class>) -> Self {
        if let Some(rule) = rules.of(frame) {
            return rule.class.map_or(Self::Transparent, Self::Decides);
        }
        // The module may be known where the function is not.
        let kind = match frame.kind {
            FrameKind::Unknown => Frame::kind_of_module(&frame.module),
            kind => kind,
        };
        match (kind, jit) {
            (FrameKind::Kernel, _) => Self::Kernel,
            (FrameKind::Runtime, _) => Self::Machine(!frame.is_near() && !frame.is_unknown()),
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

    /// The class of a stack that ends in this frame, by that of its caller; `None` where only the start of a thread
    /// is known.
    fn below(self, caller: Option<Class>) -> Option<Class> {
        match (self, caller) {
            (Self::Decides(class), _) => Some(class),
            (Self::Kernel | Self::Own, Some(caller)) if !caller.is_of_code() => Some(caller),
            (Self::Kernel, _) => Some(Class::KernelOther),
            (Self::Own, _) => Some(Class::OwnCode),
            (Self::Machine(_) | Self::Transparent, Some(Class::ErlangCode)) => {
                Some(Class::BuiltInFunctions)
            }
            (Self::Machine(_), Some(Class::JavaCode)) => Some(Class::VirtualMachine),
            (
                Self::Machine(named),
                None | Some(Class::OwnCode | Class::VirtualMachine | Class::Unnamed),
            ) => Some(if named {
                Class::VirtualMachine
            } else {
                Class::Unnamed
            }),
            (Self::Machine(_) | Self::Transparent, caller) => caller,
            (Self::Unnamed, _) => Some(Class::Unnamed),
        }
    }
}

impl Profile {
    /// The class of each stack, by its index. Each frame is looked at once, and each stack.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let rules = ClassRules::built_in();
        let jit = self
            .frames
            .iter()
            .find_map(|frame| match frame.module.as_str() {
                "libjvm.so" => Some(Class::JavaCode),
                module if module.starts_with("beam.") => Some(Class::ErlangCode),
                _ => None,
            });
        let parts = self
            .frames
            .iter()
            .map(|frame| FrameClass::of(frame, rules, jit));
        let parts: Vec<FrameClass> = parts.collect();
        let mut classes: Vec<Option<Class>> = Vec::with_capacity(self.stacks.len());
        for node in &self.stacks {
            let caller = node.parent.and_then(|it| classes.get(it as usize).copied());
            let part = parts.get(node.frame as usize).copied();
            classes.push(part.unwrap_or(FrameClass::Unnamed).below(caller.flatten()));
        }
        let classes = classes.into_iter();
        // The start of a thread is the C library's.
        classes
            .map(|class| class.unwrap_or(Class::Libraries))
            .collect()
    }

    /// Shares of classes: every sample counts for one. The largest share first; empty without samples.
    #[must_use]
    pub fn class_shares(&self) -> Vec<ClassShare> {
        let classes = self.classes();
        let class_of = |stack: u32| classes.get(stack as usize).copied();
        let sum = self.total_weight().max(1) as f64;
        let sums = self.sums(|sample| class_of(sample.stack).unwrap_or(Class::Unnamed));
        let shares = sums.into_iter().map(|(class, weight)| ClassShare {
            class,
            share: weight as f64 / sum,
            weight,
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by_key(|it| std::cmp::Reverse(it.weight));
        shares
    }
}
