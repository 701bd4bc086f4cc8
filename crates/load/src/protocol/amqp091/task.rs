//! The steps of a channel's set-up, and what the broker answers to each.

use wire::amqp091::Method;

/// A step of the set-up, each of which the broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Open,
    DeclareExchange,
    DeclareQueue,
    BindQueue,
    SelectConfirms,
    SelectTransactions,
    DeclareOwn,
    BindOwn,
    Prefetch { count: u16, whole_channel: bool },
    Consume,
    ConsumeReplies,
}

impl Task {
    /// Whether the broker's method is the answer to it.
    pub(super) const fn is_answered_by(self, method: &Method<'_>) -> bool {
        matches!(
            (self, method),
            (Self::Open, Method::ChannelOpenOk(_))
                | (Self::DeclareExchange, Method::ExchangeDeclareOk(_))
                | (
                    Self::DeclareQueue | Self::DeclareOwn,
                    Method::QueueDeclareOk(_)
                )
                | (Self::BindQueue | Self::BindOwn, Method::QueueBindOk(_))
                | (Self::SelectConfirms, Method::ConfirmSelectOk(_))
                | (Self::SelectTransactions, Method::TxSelectOk(_))
                | (Self::Prefetch { .. }, Method::BasicQosOk(_))
                | (
                    Self::Consume | Self::ConsumeReplies,
                    Method::BasicConsumeOk(_)
                )
        )
    }
}
