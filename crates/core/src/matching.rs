//! The matcher: which arrived message belongs to which posted receive (MPI-5 section 3.5).
//!
//! A pure state machine over tokens: `R` names a posted receive, `M` a message that has arrived. It keeps
//! for each context and source one queue of receives and one of messages, and for each context one
//! queue of receives from any source; a running number orders them, so that messages of one source match
//! in the order sent and receives in the order posted, whatever the wildcards. At any time no posted
//! receive matches a kept message.
//!
//! Deliberately absent: memory of payloads (the owner of `M` bounds it, see [`crate::flow`]), transports.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Context and plane, see [`tutti_base::ContextId::plane`].
    pub context: u32,
    /// Rank of the sender in its group.
    pub source: u32,
    /// Tag.
    pub tag: i32,
}

/// What a receive asks for. `None` is the wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Context and plane.
    pub context: u32,
    /// Rank of the sender in its group.
    pub source: Option<u32>,
    /// Tag.
    pub tag: Option<i32>,
}

/// Posted receives and kept messages.
#[derive(Debug)]
pub struct Matcher<R, M> {
    contexts: HashMap<u32, Context<R, M>, BuildHasherDefault<NumberHasher>>,
    order: u64,
    messages: usize,
    receives: usize,
}

#[derive(Debug)]
struct Context<R, M> {
    sources: HashMap<u32, Source<R, M>, BuildHasherDefault<NumberHasher>>,
    any_source: VecDeque<Posted<R>>,
}

#[derive(Debug)]
struct Source<R, M> {
    posted: VecDeque<Posted<R>>,
    arrived: VecDeque<Arrived<M>>,
}

#[derive(Debug)]
struct Posted<R> {
    order: u64,
    tag: Option<i32>,
    receive: R,
}

#[derive(Debug)]
struct Arrived<M> {
    order: u64,
    tag: i32,
    message: M,
}

impl Pattern {
    /// Whether a message is one of those asked for.
    #[inline]
    pub fn fits(&self, envelope: Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Matcher<R, M> {
        Matcher { contexts: HashMap::default(), order: 0, messages: 0, receives: 0 }
    }
}

impl<R: PartialEq, M> Matcher<R, M> {
    /// A message has arrived: the receive it belongs to, if one is posted. The message is only kept when
    /// [`Matcher::keep`] follows.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope) -> Option<R> {
        if self.receives == 0 {
            return None;
        }
        let context = self.contexts.get_mut(&envelope.context)?;
        let wild = first_posted(&context.any_source, envelope.tag);
        let mut source = context.sources.get_mut(&envelope.source);
        let named = source.as_ref().and_then(|source| first_posted(&source.posted, envelope.tag));
        let from_wild = match (wild, named) {
            (None, None) => return None,
            (Some((_, wild)), Some((_, named))) => wild < named,
            (wild, _) => wild.is_some(),
        };
        let posted = if from_wild {
            context.any_source.remove(wild?.0)
        } else {
            source.as_mut()?.posted.remove(named?.0)
        };
        self.receives -= 1;
        posted.map(|posted| posted.receive)
    }

    /// Keeps a message that no posted receive wanted.
    pub fn keep(&mut self, envelope: Envelope, message: M) {
        self.order += 1;
        self.messages += 1;
        let arrived = Arrived { order: self.order, tag: envelope.tag, message };
        self.context(envelope.context).source(envelope.source).arrived.push_back(arrived);
    }

    /// A receive is started: the kept message that it gets, if there is one. The receive is only posted
    /// when [`Matcher::post`] follows.
    #[inline]
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        if self.messages == 0 {
            return None;
        }
        let (source, position) = self.find(pattern)?;
        let queue = &mut self.contexts.get_mut(&pattern.context)?.sources.get_mut(&source)?.arrived;
        let arrived = queue.remove(position)?;
        self.messages -= 1;
        Some((Envelope { context: pattern.context, source, tag: arrived.tag }, arrived.message))
    }

    /// Posts a receive that no kept message satisfied.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: R) {
        self.order += 1;
        self.receives += 1;
        let posted = Posted { order: self.order, tag: pattern.tag, receive };
        let context = self.context(pattern.context);
        match pattern.source {
            Some(source) => context.source(source).posted.push_back(posted),
            None => context.any_source.push_back(posted),
        }
    }

    /// The kept message that a receive of this pattern would get, left where it is (probe).
    pub fn peek(&self, pattern: Pattern) -> Option<(Envelope, &M)> {
        let (source, position) = self.find(pattern)?;
        let arrived = self.contexts.get(&pattern.context)?.sources.get(&source)?.arrived.get(position)?;
        Some((Envelope { context: pattern.context, source, tag: arrived.tag }, &arrived.message))
    }

    /// Withdraws a posted receive; false if it was matched before.
    pub fn cancel(&mut self, pattern: Pattern, receive: &R) -> bool {
        let Some(context) = self.contexts.get_mut(&pattern.context) else { return false };
        let queue = match pattern.source {
            Some(source) => match context.sources.get_mut(&source) {
                Some(source) => &mut source.posted,
                None => return false,
            },
            None => &mut context.any_source,
        };
        let position = queue.iter().position(|posted| posted.receive == *receive);
        let withdrawn = position.is_some_and(|position| queue.remove(position).is_some());
        self.receives -= usize::from(withdrawn);
        withdrawn
    }

    /// Whether no receive is posted and no message is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.receives == 0 && self.messages == 0
    }

    /// How many messages are kept.
    pub fn kept(&self) -> usize {
        self.messages
    }

    /// Forgets the queues of a context that is freed, unless something still waits in them.
    pub fn forget_if_idle(&mut self, context: u32) {
        let idle = |context: &Context<R, M>| {
            context.any_source.is_empty()
                && context
                    .sources
                    .values()
                    .all(|source| source.posted.is_empty() && source.arrived.is_empty())
        };
        if self.contexts.get(&context).is_some_and(idle) {
            self.contexts.remove(&context);
        }
    }

    fn find(&self, pattern: Pattern) -> Option<(u32, usize)> {
        let context = self.contexts.get(&pattern.context)?;
        match pattern.source {
            Some(source) => {
                let (position, _) = first_arrived(&context.sources.get(&source)?.arrived, pattern.tag)?;
                Some((source, position))
            }
            None => context
                .sources
                .iter()
                .filter_map(|(source, queues)| Some((*source, first_arrived(&queues.arrived, pattern.tag)?)))
                .min_by_key(|(_, (_, order))| *order)
                .map(|(source, (position, _))| (source, position)),
        }
    }

    fn context(&mut self, context: u32) -> &mut Context<R, M> {
        self.contexts
            .entry(context)
            .or_insert_with(|| Context { sources: HashMap::default(), any_source: VecDeque::new() })
    }
}

impl<R, M> Context<R, M> {
    fn source(&mut self, source: u32) -> &mut Source<R, M> {
        self.sources
            .entry(source)
            .or_insert_with(|| Source { posted: VecDeque::new(), arrived: VecDeque::new() })
    }
}

fn first_posted<R>(queue: &VecDeque<Posted<R>>, tag: i32) -> Option<(usize, u64)> {
    let position = queue.iter().position(|posted| posted.tag.is_none_or(|wanted| wanted == tag))?;
    Some((position, queue[position].order))
}

fn first_arrived<M>(queue: &VecDeque<Arrived<M>>, tag: Option<i32>) -> Option<(usize, u64)> {
    let position = queue.iter().position(|arrived| tag.is_none_or(|wanted| wanted == arrived.tag))?;
    Some((position, queue[position].order))
}

/// A hash for small numbers that nobody hostile chooses: one multiplication.
#[derive(Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// Runs a trace: `post R SOURCE TAG`, `arrive M SOURCE TAG`, `cancel R SOURCE TAG`, `peek SOURCE TAG`
    /// with `*` for wildcards; a line of output follows each line of input after `=>`.
    fn run(trace: &str) -> String {
        let mut matcher: Matcher<u32, u32> = Matcher::default();
        let mut out = String::new();
        for line in trace.lines() {
            let input = line.split("=>").next().unwrap_or("").trim();
            if input.is_empty() || input.starts_with('#') {
                writeln!(out, "{line}").unwrap();
                continue;
            }
            writeln!(out, "{input:<22}=> {}", step(&mut matcher, input)).unwrap();
        }
        out
    }

    fn step(matcher: &mut Matcher<u32, u32>, input: &str) -> String {
        let words: Vec<&str> = input.split_whitespace().collect();
        let [.., source, tag] = words[..] else { panic!("{input}") };
        let pattern = Pattern { context: 0, source: source.parse().ok(), tag: tag.parse().ok() };
        let name = || words[1].parse::<u32>().unwrap();
        match words[0] {
            "post" => match matcher.take(pattern) {
                Some((envelope, message)) => format!("message {message} of {}", envelope.source),
                None => {
                    matcher.post(pattern, name());
                    "posted".to_string()
                }
            },
            "arrive" => {
                let envelope =
                    Envelope { context: 0, source: pattern.source.unwrap(), tag: pattern.tag.unwrap() };
                match matcher.arrive(envelope) {
                    Some(receive) => format!("receive {receive}"),
                    None => {
                        matcher.keep(envelope, name());
                        "kept".to_string()
                    }
                }
            }
            "cancel" => format!("{}", matcher.cancel(pattern, &name())),
            "peek" => format!("{:?}", matcher.peek(pattern).map(|(_, message)| *message)),
            other => panic!("{other}"),
        }
    }

    fn check(name: &str) {
        let path = format!("{}/../../fixtures/matching/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read_to_string(&path).unwrap();
        let got = run(&golden);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &got).unwrap();
        }
        assert_eq!(got, golden, "{path}; BLESS=1 writes it anew");
    }

    #[test]
    fn golden_traces() {
        check("order");
        check("wildcards");
        check("cancel_and_probe");
    }

    #[test]
    fn only_an_idle_context_is_forgotten() {
        let mut matcher: Matcher<u32, u32> = Matcher::default();
        let envelope = Envelope { context: 0, source: 0, tag: 0 };
        matcher.keep(envelope, 1);
        matcher.forget_if_idle(0);
        let pattern = Pattern { context: 0, source: None, tag: None };
        assert_eq!(matcher.take(pattern), Some((envelope, 1)));
        matcher.forget_if_idle(0);
        assert!(matcher.contexts.is_empty());
    }
}
