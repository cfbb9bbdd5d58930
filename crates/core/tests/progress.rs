//! Progress without a job that was started: messengers of one process, on one job object.

#![allow(clippy::unwrap_used)]

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tutti_base::WorldRank;
use tutti_base::config::Config;
use tutti_core::buffer::Buffer;
use tutti_core::completion::{self, is_complete};
use tutti_core::host::Host;
use tutti_core::lanes::{self, LaneGuard};
use tutti_core::matching::{Envelope, Pattern, Signature};
use tutti_core::messenger::{
    Above, Activity, CallServer, CardWriter, ContinuationRunner, InquiryHandler, Messenger, PeerWatch,
    WakeSource,
};
use tutti_core::progress::{advance_alone, advance_unattended, progress, send_queued, wait_until};
use tutti_core::request::{Request, RequestId, Work};
use tutti_core::specs::{Check, Mode, ReceiveSpec, SendSpec};
use tutti_sys::job::{Job, Plan};
use tutti_transport::exposure::Exposures;

/// How often a wait was about to sleep.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Layers above messages in which nothing is.
#[derive(Debug)]
struct Nothing;

impl CallServer for Nothing {
    fn answer_calls(&self, _: &LaneGuard, _: &Messenger) {
        unreachable!("nobody has windows")
    }
}

impl InquiryHandler for Nothing {
    fn answer_inquiry(&self, _: &LaneGuard, _: WorldRank, _: Envelope, _: Signature) {
        unreachable!("nobody asks")
    }
}

impl PeerWatch for Nothing {
    fn watch_others(&self, _: &LaneGuard) {
        WATCHED.fetch_add(1, Ordering::Relaxed);
    }

    fn watch_departed(&self, _: &LaneGuard) {}

    fn is_gone(&self, _: &LaneGuard, _: WorldRank) -> bool {
        false
    }
}

impl CardWriter for Nothing {
    fn answer_card(&self, _: &Messenger, _: u32, _: &dyn Fn() -> String) {}
}

impl ContinuationRunner for Nothing {
    fn run_ready(&self, _: &LaneGuard, _: &Messenger) {}
}

impl WakeSource for Nothing {
    fn before_sleep(&self, _: &LaneGuard, _: &mut Vec<RawFd>, _: &mut Option<Instant>) -> bool {
        true
    }
}

fn above() -> Above {
    Above {
        calls: &Nothing,
        inquiries: &Nothing,
        peers: &Nothing,
        cards: &Nothing,
        continuations: &Nothing,
        wakes: &Nothing,
    }
}

fn messengers(count: u32) -> Vec<Messenger> {
    let job = Arc::new(Job::create(&Plan { processors: 64, ..Plan::one_host(count) }).unwrap());
    let one = |rank| {
        let config = Config::default();
        let exposures = Exposures::new(&config).of_job(Arc::clone(&job));
        let host = Host::new(config, Arc::clone(&job), (WorldRank(rank), rank), None);
        Messenger::new(host, exposures, None, above()).unwrap()
    };
    (0..count).map(one).collect()
}

fn send(held: &LaneGuard, from: &Messenger, to: u32, data: Vec<u8>) -> RequestId {
    let mut messages = from.messages.borrow_mut(held);
    let id = messages.state.insert(Request::new(Work::Other, 0));
    let envelope = Envelope { context: 0, source: from.rank.0, tag: 3 };
    let (buffer, peer, mode) = (Buffer::owned(data), WorldRank(to), Mode::Standard);
    messages.start_send(id, SendSpec { buffer, peer, envelope, mode, signature: 0 });
    id
}

fn receive(held: &LaneGuard, at: &Messenger, bytes: usize) -> (RequestId, Buffer) {
    let mut messages = at.messages.borrow_mut(held);
    let id = messages.state.insert(Request::new(Work::Other, 0));
    let buffer = Buffer::owned(vec![0; bytes]);
    let pattern = Pattern { context: 0, source: None, tag: Some(3) };
    messages.start_receive(
        id,
        ReceiveSpec { buffer: buffer.clone(), pattern, from: None, check: Check::Nothing },
    );
    (id, buffer)
}

/// What an activity has done, step by step: its name, and whether its caller waits.
type Steps = Arc<Mutex<Vec<(char, bool)>>>;

/// Is over after so many steps; the last one may begin another.
#[derive(Debug)]
struct Counting {
    name: char,
    left: u32,
    is_unattended: bool,
    then: Option<Box<Counting>>,
    steps: Steps,
}

impl Counting {
    fn new(name: char, left: u32, steps: &Steps) -> Box<Counting> {
        Box::new(Counting { name, left, is_unattended: false, then: None, steps: Arc::clone(steps) })
    }
}

impl Activity for Counting {
    fn advance(
        mut self: Box<Self>,
        held: &LaneGuard,
        messenger: &Messenger,
        patient: bool,
    ) -> Option<Box<dyn Activity>> {
        self.steps.lock().unwrap().push((self.name, patient));
        self.left -= 1;
        if self.left > 0 {
            return Some(self);
        }
        if let Some(then) = self.then.take() {
            messenger.add_activity(held, then);
        }
        None
    }

    fn is_unattended(&self) -> bool {
        self.is_unattended
    }
}

/// The names of the steps since this was called last.
fn taken(steps: &Steps) -> String {
    std::mem::take(&mut *steps.lock().unwrap()).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn messages_move_whenever_progress_is_made() {
    let (held, all) = (lanes::enter(), messengers(2));
    for bytes in [0, 8, 100_000] {
        let data: Vec<u8> = (0..bytes).map(|place| place as u8).collect();
        let sending = send(&held, &all[0], 1, data.clone());
        let (receiving, buffer) = receive(&held, &all[1], bytes);
        let is_over = || {
            is_complete(&held, &all[0], sending).unwrap() && is_complete(&held, &all[1], receiving).unwrap()
        };
        let moves = (0..10_000).take_while(|_| !is_over()).filter(|_| {
            let sent = progress(&held, &all[0]);
            progress(&held, &all[1]) || sent
        });
        assert!(moves.count() > 0 || bytes == 0 && is_over());
        assert!(is_over());
        assert_eq!(buffer.to_vec(), data);
        completion::finish(&held, &all[0], sending).result.unwrap();
        assert_eq!(completion::finish(&held, &all[1], receiving).status.bytes, bytes as u64);
    }
    assert!(all.iter().all(|it| !progress(&held, it) && it.messages.borrow(&held).is_idle()));
}

#[test]
fn activities_go_on_until_they_are_over() {
    let (held, all, steps) = (lanes::enter(), messengers(1), Steps::default());
    let it = &all[0];
    let last = Counting::new('c', 1, &steps);
    it.add_activity(&held, Counting::new('a', 2, &steps));
    it.add_activity(&held, Box::new(Counting { then: Some(last), ..*Counting::new('b', 1, &steps) }));
    assert!(progress(&held, it));
    assert_eq!(taken(&steps), "ab");
    // What an activity has begun goes on next time.
    assert!(progress(&held, it));
    assert_eq!(taken(&steps), "ac");
    assert!(!progress(&held, it) && it.activities.borrow(&held).is_empty());
    assert_eq!(taken(&steps), "");
}

#[test]
fn who_is_not_the_program_leaves_alone_what_may_call_it() {
    let (held, all, steps) = (lanes::enter(), messengers(1), Steps::default());
    let it = &all[0];
    it.add_activity(&held, Counting::new('a', 1, &steps));
    it.add_activity(&held, Box::new(Counting { is_unattended: true, ..*Counting::new('u', 2, &steps) }));
    advance_unattended(&held, it);
    assert_eq!(taken(&steps), "u");
    progress(&held, it);
    assert_eq!(taken(&steps), "au");
}

#[test]
fn only_one_that_is_alone_is_waited_for_patiently() {
    let (mut held, all, steps) = (lanes::enter(), messengers(1), Steps::default());
    let it = &all[0];
    let patient = |steps: &Steps| std::mem::take(&mut *steps.lock().unwrap());
    it.add_activity(&held, Counting::new('a', 3, &steps));
    advance_alone(&held, it);
    assert_eq!(patient(&steps), [('a', true)]);
    it.add_activity(&held, Counting::new('b', 1, &steps));
    advance_alone(&held, it);
    assert_eq!(patient(&steps), []);
    let is_over = |held: &LaneGuard| it.activities.borrow(held).is_empty();
    wait_until(&mut held, it, &|| String::new(), is_over);
    assert_eq!(patient(&steps), [('a', false), ('b', false), ('a', true)]);
}

#[test]
fn a_wait_sleeps_until_a_message_comes() {
    let mut all = messengers(2);
    let (sender, receiver) = (all.pop().unwrap(), all.pop().unwrap());
    let before = WATCHED.load(Ordering::Relaxed);
    let other = thread::spawn(move || {
        let mut held = lanes::enter();
        // Not before the receiver is about to sleep.
        while WATCHED.load(Ordering::Relaxed) == before {
            held.release_while(|| thread::sleep(Duration::from_millis(1)));
        }
        held.release_while(|| thread::sleep(Duration::from_millis(20)));
        let id = send(&held, &sender, 0, vec![7; 8]);
        send_queued(&mut held, &sender, "a test");
        completion::finish(&held, &sender, id).result.unwrap();
    });
    let mut held = lanes::enter();
    let (id, buffer) = receive(&held, &receiver, 8);
    wait_until(&mut held, &receiver, &|| "a message".to_string(), |held| {
        is_complete(held, &receiver, id).unwrap()
    });
    assert_eq!(buffer.to_vec(), [7; 8]);
    drop(held);
    other.join().unwrap();
}
