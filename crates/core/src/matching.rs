//! Matcher of arrived messages and posted receives (MPI-5 section 3.5).
//!
//! The matcher is a pure state machine over tokens: `R` identifies a posted receive, `M` a message that has
//! arrived. For each context and source it keeps one queue of receives and one of messages. For each context
//! it keeps one queue of receives from any source. A running number orders them all. So messages of one
//! source match in the order of sending, and receives in the order of posting, whatever the wildcards. At any
//! time no posted receive matches an unexpected message.
//!
//! Deliberately absent: memory of payloads (the owner of `M` bounds it, see [`crate::flow`]), transports.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Number of bits for the lane in the tag of a collective operation. The tags of one operation's messages
/// differ only in these bits.
pub const LANE_BITS: u32 = 8;
/// Hash of the datatype signature of a message; 0 if it is not to be compared.
pub type Signature = u16;

/// Envelope of a message: the values that matching compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Context and plane, see [`tutti_base::ContextId::plane`].
    pub context: u32,
    /// Rank of the sender in its group.
    pub source: u32,
    /// Tag of the message.
    pub tag: i32,
}

/// Pattern of the messages that a receive matches. None is the wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Context and plane of the message.
    pub context: u32,
    /// Rank of the sender in its group.
    pub source: Option<u32>,
    /// Tag of the message; None for any.
    pub tag: Option<i32>,
}

/// Posted receives and unexpected messages.
#[derive(Debug)]
pub struct Matcher<R, M> {
    contexts: Numbered<u32, Context>,
    /// Queues, to which contexts refer by index.
    queues: Vec<Queues<R, M>>,
    /// Indices of unused queues, whose contexts were forgotten.
    free: Vec<u32>,
    /// Queues of the last lookup, which is usually also the next one.
    last: Last,
    order: u64,
    messages: usize,
    receives: usize,
    /// Number of posted receives from any source.
    wild: usize,
    /// Number of contexts that are removed as soon as they are idle.
    leaving: usize,
}

/// Indices of the queues of a context.
#[derive(Debug)]
struct Context {
    /// Index of the queues of each source.
    sources: Numbered<u32, u32>,
    /// Index of the receives from any source.
    any_source: u32,
    /// True if the context is removed as soon as it is idle.
    is_leaving: bool,
}

/// Queues of the last lookup.
#[derive(Clone, Copy, Debug)]
struct Last {
    context: u32,
    source: u32,
    /// Index of the queues; `u32::MAX` if there are none.
    place: u32,
}

/// Queues of one source in a context. Those for any source contain receives only.
#[derive(Debug)]
struct Queues<R, M> {
    posted: VecDeque<Posted<R>>,
    arrived: VecDeque<Arrived<M>>,
}

/// Receive that is posted.
#[derive(Debug)]
struct Posted<R> {
    order: u64,
    tag: Option<i32>,
    receive: R,
}

/// Unexpected message.
#[derive(Debug)]
struct Arrived<M> {
    order: u64,
    tag: i32,
    message: M,
}

impl Pattern {
    /// Returns true if a message matches the pattern.
    #[inline]
    pub fn fits(&self, envelope: Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Matcher<R, M> {
        Matcher {
            contexts: HashMap::default(),
            queues: Vec::new(),
            free: Vec::new(),
            last: NOWHERE,
            order: 0,
            messages: 0,
            receives: 0,
            wild: 0,
            leaving: 0,
        }
    }
}

const NOWHERE: Last = Last { context: 0, source: 0, place: u32::MAX };

impl<R: PartialEq, M> Matcher<R, M> {
    /// Removes and returns the posted receive that matches an arrived message, if any. Without one, the
    /// caller keeps the message by `Matcher::push_unexpected`.
    #[inline]
    pub fn arrive(&mut self, envelope: Envelope) -> Option<R> {
        let (_, place, position, is_wild) = self.find_posted(envelope)?;
        self.receives -= 1;
        self.wild -= usize::from(is_wild);
        let posted = take_at(&mut self.queues[place].posted, position);
        self.forget_left(envelope.context);
        posted.map(|posted| posted.receive)
    }

    /// Returns the posted receive that a message would match if it arrived now.
    pub fn first_posted(&self, envelope: Envelope) -> Option<&R> {
        let (_, place, position, _) = self.find_posted(envelope)?;
        self.queues[place].posted.get(position).map(|posted| &posted.receive)
    }

    /// Returns all receives posted for messages of this source, including those from any source. The result
    /// has their tags and is in the order of posting.
    pub fn posted_for(&self, context: u32, source: u32) -> Vec<(Option<i32>, R)>
    where
        R: Copy,
    {
        let places = [self.place(context, source), self.any_source(context)];
        let queues = places.into_iter().flatten().flat_map(|place| &self.queues[place].posted);
        let mut posted: Vec<&Posted<R>> = queues.collect();
        posted.sort_by_key(|posted| posted.order);
        posted.into_iter().map(|posted| (posted.tag, posted.receive)).collect()
    }

    /// Returns the receive that matches a message: its order, queue and position, and whether it is from any
    /// source.
    #[inline(always)]
    fn find_posted(&self, envelope: Envelope) -> Option<(u64, usize, usize, bool)> {
        if self.receives == 0 {
            return None;
        }
        let Envelope { context, source, tag } = envelope;
        let named = self.place(context, source);
        let wild = if self.wild == 0 { None } else { self.any_source(context) };
        let first = |place: Option<usize>| {
            let place = place?;
            let (position, order) = first_posted(&self.queues[place].posted, tag)?;
            Some((order, place, position, Some(place) == wild))
        };
        match (first(wild), first(named)) {
            (Some(wild), Some(named)) => Some(wild.min(named)),
            (wild, named) => wild.or(named),
        }
    }

    /// Keeps a message that matches no posted receive.
    pub fn push_unexpected(&mut self, envelope: Envelope, message: M) {
        self.order += 1;
        self.messages += 1;
        let arrived = Arrived { order: self.order, tag: envelope.tag, message };
        let place = self.place_or_new(envelope.context, envelope.source);
        self.queues[place].arrived.push_back(arrived);
    }

    /// Removes and returns the unexpected message that a new receive matches, if any. Without one, the caller
    /// posts the receive by [`Matcher::post`].
    #[inline]
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        if self.messages == 0 {
            return None;
        }
        let (source, place, position) = self.find(pattern)?;
        let arrived = take_at(&mut self.queues[place].arrived, position)?;
        self.messages -= 1;
        self.forget_left(pattern.context);
        Some((Envelope { context: pattern.context, source, tag: arrived.tag }, arrived.message))
    }

    /// Posts a receive that no unexpected message matches.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: R) {
        self.order += 1;
        self.receives += 1;
        let posted = Posted { order: self.order, tag: pattern.tag, receive };
        let place = match pattern.source {
            Some(source) => self.place_or_new(pattern.context, source),
            None => {
                self.wild += 1;
                self.context(pattern.context).any_source as usize
            }
        };
        self.queues[place].posted.push_back(posted);
    }

    /// Returns the unexpected message that a receive of this pattern would match, without removing it
    /// (probe).
    pub fn peek(&self, pattern: Pattern) -> Option<(Envelope, &M)> {
        let (source, place, position) = self.find(pattern)?;
        let arrived = self.queues[place].arrived.get(position)?;
        Some((Envelope { context: pattern.context, source, tag: arrived.tag }, &arrived.message))
    }

    /// Returns true if a receive is posted and not matched yet.
    pub fn is_posted(&self, pattern: Pattern, receive: &R) -> bool {
        let place = match pattern.source {
            Some(source) => self.place(pattern.context, source),
            None => self.any_source(pattern.context),
        };
        place.is_some_and(|place| self.queues[place].posted.iter().any(|posted| posted.receive == *receive))
    }

    /// Withdraws a posted receive. Returns false if it was matched before.
    pub fn cancel(&mut self, pattern: Pattern, receive: &R) -> bool {
        let place = match pattern.source {
            Some(source) => self.place(pattern.context, source),
            None => self.any_source(pattern.context),
        };
        let Some(place) = place else { return false };
        let queue = &mut self.queues[place].posted;
        let position = queue.iter().position(|posted| posted.receive == *receive);
        let withdrawn = position.is_some_and(|position| queue.remove(position).is_some());
        self.receives -= usize::from(withdrawn);
        self.wild -= usize::from(withdrawn && pattern.source.is_none());
        self.forget_left(pattern.context);
        withdrawn
    }

    /// Returns all unexpected messages of a context.
    pub fn kept_in(&self, context: u32) -> impl Iterator<Item = (Envelope, &M)> {
        let sources = self.contexts.get(&context).into_iter().flat_map(|context| &context.sources);
        sources.flat_map(move |(source, place)| {
            let envelope = move |tag| Envelope { context, source: *source, tag };
            self.queues[*place as usize]
                .arrived
                .iter()
                .map(move |arrived| (envelope(arrived.tag), &arrived.message))
        })
    }

    /// Returns all unexpected messages.
    pub fn kept_anywhere(&self) -> impl Iterator<Item = (Envelope, &M)> {
        self.contexts.keys().flat_map(|context| self.kept_in(*context))
    }

    /// Returns the patterns of all posted receives.
    pub fn posted_anywhere(&self) -> impl Iterator<Item = Pattern> {
        let all = self.contexts.iter().flat_map(|(context, queues)| {
            let named = queues.sources.iter().map(|(source, place)| (*context, Some(*source), *place));
            named.chain([(*context, None, queues.any_source)])
        });
        all.flat_map(|(context, source, place)| {
            let posted = self.queues[place as usize].posted.iter();
            posted.map(move |posted| Pattern { context, source, tag: posted.tag })
        })
    }

    /// Removes and returns the first unexpected message that is `wanted`, in any context. Scans all messages.
    #[cold]
    pub fn take_first(&mut self, wanted: impl Fn(&M) -> bool) -> Option<M> {
        for Queues { arrived, .. } in &mut self.queues {
            let found = arrived.iter().position(|arrived| wanted(&arrived.message));
            if let Some(taken) = found.and_then(|position| arrived.remove(position)) {
                self.messages -= 1;
                let leaving = self.contexts.iter().filter(|(_, context)| context.is_leaving);
                let leaving: Vec<u32> = leaving.map(|(number, _)| *number).collect();
                leaving.into_iter().for_each(|context| self.forget_left(context));
                return Some(taken.message);
            }
        }
        None
    }

    /// Removes and returns all unexpected messages of a context whose tags are `wanted`.
    pub fn take_where(&mut self, context: u32, wanted: impl Fn(i32) -> bool) -> Vec<M> {
        let mut taken = Vec::new();
        let Some(found) = self.contexts.get(&context) else { return taken };
        for place in found.sources.values() {
            let queue = &mut self.queues[*place as usize].arrived;
            for arrived in std::mem::take(queue) {
                if wanted(arrived.tag) {
                    taken.push(arrived.message);
                } else {
                    queue.push_back(arrived);
                }
            }
        }
        self.messages -= taken.len();
        self.forget_left(context);
        taken
    }

    /// Returns true if there are neither posted receives nor unexpected messages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.receives == 0 && self.messages == 0
    }

    /// Returns the number of unexpected messages.
    pub fn kept(&self) -> usize {
        self.messages
    }

    /// Removes the queues of an unused context as soon as they are empty.
    pub fn forget(&mut self, context: u32) {
        let Some(found) = self.contexts.get_mut(&context) else { return };
        self.leaving += usize::from(!std::mem::replace(&mut found.is_leaving, true));
        self.forget_left(context);
    }

    /// Returns true if a context has neither posted receives nor unexpected messages.
    pub fn is_idle(&self, context: u32) -> bool {
        let Some(Context { sources, any_source, .. }) = self.contexts.get(&context) else { return true };
        sources.values().chain([any_source]).all(|place| self.queues[*place as usize].is_idle())
    }

    /// Removes the queues of a context if this was requested and they are empty.
    #[inline]
    fn forget_left(&mut self, context: u32) {
        if self.leaving > 0 && self.contexts.get(&context).is_some_and(|found| found.is_leaving) {
            self.forget_if_idle(context);
        }
    }

    #[cold]
    fn forget_if_idle(&mut self, context: u32) {
        if !self.is_idle(context) {
            return;
        }
        let Some(Context { sources, any_source, .. }) = self.contexts.remove(&context) else { return };
        self.free.extend(sources.into_values().chain([any_source]));
        self.leaving -= 1;
        self.last = NOWHERE;
    }

    /// Returns source, queue and position of the unexpected message that matches a pattern.
    fn find(&self, pattern: Pattern) -> Option<(u32, usize, usize)> {
        if self.messages == 0 {
            return None;
        }
        let first = |place: u32| first_arrived(&self.queues[place as usize].arrived, pattern.tag);
        if let Some(source) = pattern.source {
            let place = self.place(pattern.context, source)?;
            return first(place as u32).map(|(position, _)| (source, place, position));
        }
        let context = self.contexts.get(&pattern.context)?;
        let sources = context.sources.iter();
        sources
            .filter_map(|(source, place)| Some((*source, *place, first(*place)?)))
            .min_by_key(|(_, _, (_, order))| *order)
            .map(|(source, place, (position, _))| (source, place as usize, position))
    }

    /// Returns the index of the queues of a source, if it has any.
    #[inline(always)]
    fn place(&self, context: u32, source: u32) -> Option<usize> {
        if let Last { context: of, source: from, place } = self.last
            && (of, from) == (context, source)
            && place != NOWHERE.place
        {
            return Some(place as usize);
        }
        self.contexts.get(&context)?.sources.get(&source).map(|place| *place as usize)
    }

    /// Returns the index of the receives from any source, if the context has queues.
    fn any_source(&self, context: u32) -> Option<usize> {
        self.contexts.get(&context).map(|context| context.any_source as usize)
    }

    /// Returns the index of the queues of a source, which are created if necessary.
    #[inline]
    fn place_or_new(&mut self, context: u32, source: u32) -> usize {
        let place = match self.place(context, source) {
            Some(place) => place,
            None => self.new_place(context, source),
        };
        self.last = Last { context, source, place: place as u32 };
        place
    }

    #[cold]
    fn new_place(&mut self, context: u32, source: u32) -> usize {
        let place = self.new_queues();
        self.context(context).sources.insert(source, place);
        place as usize
    }

    /// Returns the queues of a context, which are created if necessary.
    fn context(&mut self, number: u32) -> &mut Context {
        if !self.contexts.contains_key(&number) {
            let context =
                Context { sources: HashMap::default(), any_source: self.new_queues(), is_leaving: false };
            self.contexts.insert(number, context);
        }
        self.contexts.get_mut(&number).expect("it was there or has just been put there")
    }

    fn new_queues(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queues { posted: VecDeque::new(), arrived: VecDeque::new() });
            self.queues.len() as u32 - 1
        })
    }
}

impl<R, M> Queues<R, M> {
    fn is_idle(&self) -> bool {
        self.posted.is_empty() && self.arrived.is_empty()
    }
}

/// Returns position and order of the first receive that matches a tag.
#[inline]
fn first_posted<R>(queue: &VecDeque<Posted<R>>, tag: i32) -> Option<(usize, u64)> {
    let position = queue.iter().position(|posted| posted.tag.is_none_or(|wanted| wanted == tag))?;
    Some((position, queue[position].order))
}

/// Returns position and order of the first message with a tag.
fn first_arrived<M>(queue: &VecDeque<Arrived<M>>, tag: Option<i32>) -> Option<(usize, u64)> {
    let position = queue.iter().position(|arrived| tag.is_none_or(|wanted| wanted == arrived.tag))?;
    Some((position, queue[position].order))
}

/// Removes an entry of a queue. Usually it is the first.
#[inline]
fn take_at<T>(queue: &mut VecDeque<T>, position: usize) -> Option<T> {
    if position == 0 { queue.pop_front() } else { queue.remove(position) }
}

/// Map whose keys are numbers chosen by this process, so that its hash need not resist attacks.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Hasher for small trusted numbers: one multiplication.
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

    /// Runs the commands of a trace: `post R SOURCE TAG`, `arrive M SOURCE TAG`, `cancel R SOURCE TAG` and
    /// `peek SOURCE TAG`, with `*` for wildcards. A line of output follows each line of input after `=>`.
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
                        matcher.push_unexpected(envelope, name());
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
        let file = format!("matching/{name}.txt");
        let golden = std::fs::read_to_string(tutti_golden::path(&file)).unwrap();
        tutti_golden::check(&file, &run(&golden));
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
        let pattern = Pattern { context: 0, source: None, tag: None };
        matcher.push_unexpected(envelope, 1);
        matcher.forget(0);
        assert!(!matcher.is_idle(0));
        assert_eq!(matcher.take(pattern), Some((envelope, 1)));
        assert!(matcher.contexts.is_empty() && matcher.is_idle(0));
        matcher.post(pattern, 2);
        matcher.post(Pattern { source: Some(3), ..pattern }, 3);
        matcher.forget(0);
        matcher.forget(0);
        assert_eq!((matcher.arrive(envelope), matcher.contexts.len()), (Some(2), 1));
        assert!(matcher.cancel(Pattern { source: Some(3), ..pattern }, &3));
        assert!(matcher.contexts.is_empty() && matcher.leaving == 0);
        assert_eq!(matcher.free.len(), matcher.queues.len(), "all queues are used again");
        matcher.forget(0);
    }
}
