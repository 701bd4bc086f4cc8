//! What traces saw, on its way into a run's record.

use archive::Warning;

use super::recording::Recording;

impl Recording<'_> {
    /// Keeps what traces saw since the last time.
    pub(super) fn keep_traced(&mut self) {
        let (calls, notes) = self.tracing.take(self.context.origin);
        if let Some(writer) = &mut self.writer {
            for call in &calls {
                writer.append_call(call);
            }
        }
        for note in notes {
            self.note(&note);
        }
    }

    /// Keeps all that traces have seen, and says what the run has to say of them.
    pub(super) fn finish_tracing(&mut self) -> Vec<Warning> {
        self.keep_traced();
        self.tracing.warnings(self.context.origin)
    }
}
