//! Transport of the ranks' output to that of `mpirun`: pipes in, [`lines`](crate::lines) between, two streams
//! out. It never blocks: with a slow reader the pipes fill, and the ranks wait.
//!
//! On other hosts the streams go to the parent daemon, which takes them as two of its sources, and so on up
//! to the root. A daemon grants its children a number of bytes that they may send. Thus a slow reader stops
//! ranks on all hosts, but no other traffic.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::time::Duration;

use tutti_sys::event::{self, Interest, Poller};

use crate::lines::Merger;

/// Bytes that may wait for a slow reader before ranks are no longer read.
const PENDING: usize = 256 << 10;
/// Initial credit: bytes of a stream that a child daemon may send before it is granted more.
pub const CREDIT: usize = 256 << 10;
/// Minimum bytes of a grant; smaller ones are delayed.
const SMALLEST_GRANT: usize = CREDIT / 4;
/// Maximum bytes of a message to the parent.
const MESSAGE: usize = 32 << 10;
/// Bytes that a pipe accepts without blocking when it is ready.
const SMALL: usize = 4096;

/// Output stream of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Both streams, in the order of their numbers.
    pub const ALL: [Stream; 2] = [Stream::Out, Stream::Err];

    /// Returns the number of the stream in messages.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the stream with a number, if there is one.
    pub fn from_number(number: u8) -> Option<Stream> {
        Stream::ALL.get(usize::from(number)).copied()
    }
}

#[derive(Debug)]
enum Target {
    File(File),
    /// Parent daemon, and the number of further bytes that it accepts.
    Parent(usize),
}

#[derive(Debug)]
struct Sink {
    merger: Merger,
    target: Target,
    /// True if a write could block, so that only small ones are safe.
    may_wait: bool,
    /// Number of bytes of the merger's output that are written already.
    written: usize,
    /// True if the poller watches the target.
    watched: bool,
    broken: bool,
    failure: Option<io::Error>,
    /// Source of mpirun's own messages.
    own: usize,
}

#[derive(Debug)]
enum Feed {
    Pipe(PipeReader),
    /// Child daemon, and the number of bytes taken from it since the last grant.
    Child {
        owed: usize,
    },
    Closed,
}

#[derive(Debug)]
struct Source {
    feed: Feed,
    sink: usize,
    number: usize,
    watched: bool,
    /// File that gets a copy of the output.
    copy: Option<File>,
    /// Number of bytes that are still taken, when all processes that could write them have ended. None: any
    /// number.
    left: Option<usize>,
}

/// All outputs of a job. Tokens in the poller: `base + 0..2` for the sinks, then the sources.
#[derive(Debug)]
pub struct Outputs {
    sinks: Vec<Sink>,
    sources: Vec<Source>,
    base: u64,
    buffer: Vec<u8>,
    failure: Option<io::Error>,
}

impl Outputs {
    /// Creates outputs to the standard output and error of this process. If both are the same file, lines of
    /// the two are not mixed either.
    ///
    /// # Errors
    /// Fails if a descriptor cannot be duplicated.
    pub fn new(base: u64, timestamp: bool) -> io::Result<Outputs> {
        let (out, err) = (io::stdout(), io::stderr());
        let mut sinks = vec![Sink::new(out.as_fd(), 1, timestamp)?];
        if identity(out.as_fd()) != identity(err.as_fd()) {
            sinks.push(Sink::new(err.as_fd(), 2, timestamp)?);
        }
        if let Some(sink) = sinks.last_mut() {
            sink.merger.join_reports(sink.own);
        }
        Ok(Outputs { sinks, sources: Vec::new(), base, buffer: vec![0; 64 << 10], failure: None })
    }

    /// Creates outputs to the parent daemon, which grants credit.
    pub fn to_parent(base: u64) -> Outputs {
        let sinks = vec![Sink::to_parent(), Sink::to_parent()];
        Outputs { sinks, sources: Vec::new(), base, buffer: vec![0; 64 << 10], failure: None }
    }

    /// Adds a pipe to which a rank writes. Each of its lines gets the prefix `tag`. The bytes are also copied
    /// to `copy`, unchanged.
    ///
    /// # Errors
    /// Returns the error of fcntl(2).
    pub fn add(
        &mut self,
        pipe: PipeReader,
        stream: Stream,
        tag: String,
        copy: Option<File>,
    ) -> io::Result<()> {
        event::set_nonblocking(pipe.as_fd())?;
        let number = self.add_source(Feed::Pipe(pipe), stream, tag);
        self.sources[number].copy = copy;
        Ok(())
    }

    /// Adds a stream of a child daemon, and returns its number.
    pub fn add_child(&mut self, stream: Stream) -> usize {
        self.add_source(Feed::Child { owed: 0 }, stream, String::new())
    }

    fn add_source(&mut self, feed: Feed, stream: Stream, tag: String) -> usize {
        let sink = self.sink_of(stream);
        let number = self.sinks[sink].merger.add(tag);
        self.sources.push(Source { feed, sink, number, watched: false, copy: None, left: None });
        self.sources.len() - 1
    }

    /// Takes bytes of a child's stream.
    pub fn feed(&mut self, number: usize, bytes: &[u8], now: Duration) {
        let source = &mut self.sources[number];
        let Feed::Child { owed } = &mut source.feed else { return };
        *owed += bytes.len();
        self.sinks[source.sink].merger.feed(source.number, bytes, now);
    }

    /// Stops taking bytes from a source.
    pub fn close(&mut self, number: usize, now: Duration) {
        let source = &mut self.sources[number];
        if !matches!(std::mem::replace(&mut source.feed, Feed::Closed), Feed::Closed) {
            self.sinks[source.sink].merger.close(source.number, now);
        }
    }

    /// Returns the number of further bytes to grant for a child's stream, if there is room for them.
    pub fn grant(&mut self, number: usize) -> Option<usize> {
        let source = &mut self.sources[number];
        let sink = &self.sinks[source.sink];
        let has_room = sink.broken || sink.pending() < PENDING && sink.merger.wants(source.number);
        match &mut source.feed {
            Feed::Child { owed } if has_room && *owed >= SMALLEST_GRANT => Some(std::mem::take(owed)),
            _ => None,
        }
    }

    /// Records a grant: the parent accepts further bytes of a stream.
    pub fn credit(&mut self, stream: Stream, bytes: usize) {
        let sink = self.sink_of(stream);
        if let Target::Parent(credit) = &mut self.sinks[sink].target {
            *credit = credit.saturating_add(bytes);
        }
    }

    /// Records that this stream has no reader any more. Ranks that write to it get an error.
    pub fn break_stream(&mut self, stream: Stream) {
        let sink = self.sink_of(stream);
        self.sinks[sink].broken = true;
    }

    /// Returns true if this stream has no reader any more.
    pub fn is_broken(&self, stream: Stream) -> bool {
        self.sinks[self.sink_of(stream)].broken
    }

    /// Returns bytes of a stream that may be sent to the parent now, if there are any.
    pub fn take(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let sink = self.sink_of(stream);
        let sink = &mut self.sinks[sink];
        let (pending, written) = (sink.pending(), sink.written);
        let Target::Parent(credit) = &mut sink.target else { return None };
        let count = pending.min(*credit).min(MESSAGE);
        if count == 0 {
            return None;
        }
        *credit -= count;
        let bytes = sink.merger.output()[written..written + count].to_vec();
        sink.written += count;
        if sink.pending() == 0 {
            sink.merger.output().clear();
            sink.written = 0;
        }
        Some(bytes)
    }

    /// Prints a message of mpirun on standard error.
    pub fn say(&mut self, text: &str, now: Duration) {
        let sink = self.sink_of(Stream::Err);
        let sink = &mut self.sinks[sink];
        sink.merger.feed(sink.own, text.as_bytes(), now);
    }

    /// Handles an event of the poller, if its token belongs to this object.
    pub fn ready(&mut self, token: u64, now: Duration) {
        let Some(index) = token.checked_sub(self.base).and_then(|index| usize::try_from(index).ok()) else {
            return;
        };
        let Some(index) = index.checked_sub(2) else { return };
        let Some(source) = self.sources.get_mut(index) else { return };
        let Feed::Pipe(pipe) = &mut source.feed else { return };
        let merger = &mut self.sinks[source.sink].merger;
        let room = source.left.unwrap_or(usize::MAX).min(self.buffer.len());
        match pipe.read(&mut self.buffer[..room]) {
            Ok(0) => {
                source.feed = Feed::Closed;
                merger.close(source.number, now);
            }
            Ok(count) => {
                let bytes = &self.buffer[..count];
                merger.feed(source.number, bytes, now);
                if let Some(left) = &mut source.left {
                    *left -= count;
                }
                if let Some(Err(error)) = source.copy.as_mut().map(|file| file.write_all(bytes)) {
                    source.copy = None;
                    self.failure.get_or_insert(error);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => {
                source.feed = Feed::Closed;
                merger.close(source.number, now);
            }
        }
    }

    /// Writes as much as possible, and sets up the poller for the rest.
    pub fn advance(&mut self, poller: &Poller, now: Duration) {
        let are_closed = self.sources.iter().all(|source| matches!(source.feed, Feed::Closed));
        for (index, sink) in (0..).zip(&mut self.sinks) {
            sink.merger.tick(now);
            if are_closed {
                sink.merger.release_reports();
            }
            sink.flush(poller, self.base + index);
            if let Some(error) = sink.failure.take() {
                self.failure.get_or_insert(error);
            }
        }
        for (index, source) in (2..).zip(&mut self.sources) {
            let sink = &self.sinks[source.sink];
            if sink.broken {
                // The rank gets SIGPIPE, like a program in a pipeline.
                if let Feed::Pipe(_) = source.feed {
                    source.feed = Feed::Closed;
                }
            }
            let Feed::Pipe(pipe) = &source.feed else { continue };
            let wanted = sink.pending() < PENDING && sink.merger.wants(source.number);
            if wanted != source.watched {
                let changed = match wanted {
                    true => poller.add(pipe.as_fd(), self.base + index, Interest::Read),
                    false => poller.remove(pipe.as_fd()),
                };
                source.watched = if changed.is_ok() { wanted } else { source.watched };
            }
        }
    }

    /// Returns the time at which [`Outputs::advance`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        self.sinks.iter().filter_map(|sink| sink.merger.deadline()).min()
    }

    /// Returns the error of an output that could not be written, once for each output.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns true if all sources have ended and all of their bytes were written.
    pub fn is_finished(&self) -> bool {
        self.sources.iter().all(|source| matches!(source.feed, Feed::Closed))
            && self.sinks.iter().all(|sink| sink.pending() == 0 && !sink.merger.holds_reports())
    }

    /// Limits what is taken from the ranks of this host to the present contents of their pipes. All processes
    /// that had the pipes have ended, so further bytes could only come from one that has escaped. The
    /// contents wait in the pipes while the reader of the output is slow. The function is called again until
    /// the pipes are empty.
    pub fn close_sources(&mut self, now: Duration) {
        for number in 0..self.sources.len() {
            let source = &mut self.sources[number];
            let Feed::Pipe(pipe) = &source.feed else { continue };
            let left = source.left.get_or_insert_with(|| event::waiting_bytes(pipe.as_fd()).unwrap_or(0));
            if *left == 0 {
                self.close(number, now);
            }
        }
    }

    fn sink_of(&self, stream: Stream) -> usize {
        match stream {
            Stream::Out => 0,
            Stream::Err => self.sinks.len() - 1,
        }
    }
}

impl Sink {
    /// Creates a sink for a descriptor of this process, with number `number`.
    fn new(fd: BorrowedFd<'_>, number: i32, timestamp: bool) -> io::Result<Sink> {
        let mut merger = Merger::new(timestamp);
        let own = merger.add(String::new());
        let copy: OwnedFd = event::duplicate_above_stdio(fd)?;
        let target = File::from(copy);
        let kind = target.metadata()?.file_type();
        let mut sink = Sink {
            merger,
            target: Target::File(target),
            may_wait: false,
            written: 0,
            watched: false,
            broken: false,
            failure: None,
            own,
        };
        if !kind.is_file() {
            // Other processes share the open file, so it must not become non-blocking. A file that is opened
            // again may. A socket cannot be opened again.
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
            match options.open(format!("/proc/self/fd/{number}")) {
                Ok(target) => sink.target = Target::File(target),
                Err(_) => sink.may_wait = kind.is_fifo() || kind.is_socket() || kind.is_char_device(),
            }
        }
        Ok(sink)
    }

    /// Creates a sink for the parent daemon, with an initial credit.
    fn to_parent() -> Sink {
        let mut merger = Merger::new(false);
        let own = merger.add(String::new());
        Sink {
            merger,
            target: Target::Parent(CREDIT),
            may_wait: false,
            written: 0,
            watched: false,
            broken: false,
            failure: None,
            own,
        }
    }

    fn pending(&self) -> usize {
        self.merger.output_bytes() - self.written
    }

    /// Writes merged output to the file as far as possible without blocking.
    fn flush(&mut self, poller: &Poller, token: u64) {
        if let Target::Parent(_) = self.target {
            if self.broken {
                self.merger.output().clear();
                self.written = 0;
            }
            return;
        }
        let mut small_writes = 0;
        while self.pending() > 0 && !self.broken {
            if self.may_wait && small_writes > 0 {
                break;
            }
            let limit = if self.may_wait { SMALL } else { usize::MAX };
            let output = self.merger.output();
            let piece = &output[self.written..];
            let Target::File(target) = &mut self.target else { return };
            match target.write(&piece[..piece.len().min(limit)]) {
                Ok(count) => {
                    self.written += count;
                    small_writes += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.broken = true;
                    self.failure = Some(error);
                }
            }
        }
        if self.pending() == 0 || self.broken {
            self.merger.output().clear();
            self.written = 0;
        }
        self.watch(poller, token);
    }

    /// Watches the target only while bytes wait to be written.
    fn watch(&mut self, poller: &Poller, token: u64) {
        let wanted = self.pending() > 0;
        let Target::File(target) = &self.target else { return };
        if wanted == self.watched {
            return;
        }
        let changed = match wanted {
            true => poller.add(target.as_fd(), token, Interest::Write),
            false => poller.remove(target.as_fd()),
        };
        self.watched = if changed.is_ok() { wanted } else { self.watched };
    }
}

/// Returns device and inode of the file behind a descriptor; None if they are unknown.
fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let metadata = File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs steps on a pipe whose writer never closes it. `+N` writes N bytes, `r` reads, `c` closes the
    /// sources. Checks the number of bytes that arrived, and whether the source is closed.
    fn check(steps: &[&str], expected: (usize, bool)) {
        const BASE: u64 = 16;
        let (reader, mut writer) = event::pipe().unwrap();
        let mut outputs = Outputs::to_parent(BASE);
        outputs.add(reader, Stream::Out, String::new(), None).unwrap();
        for step in steps {
            match step.strip_prefix('+') {
                Some(count) => writer.write_all(&vec![b'\n'; count.parse().unwrap()]).unwrap(),
                None if *step == "r" => outputs.ready(BASE + 2, Duration::ZERO),
                None => outputs.close_sources(Duration::ZERO),
            }
        }
        let is_closed = matches!(outputs.sources[0].feed, Feed::Closed);
        let mut passed = 0;
        while let Some(bytes) = outputs.take(Stream::Out) {
            passed += bytes.len();
        }
        assert_eq!((passed, is_closed), expected, "{steps:?}");
    }

    #[test]
    fn what_a_pipe_holds_is_taken_before_it_is_closed() {
        check(&["c"], (0, true));
        check(&["+7", "c"], (0, false));
        check(&["+7", "c", "r", "c"], (7, true));
        check(&["+7", "r", "c"], (7, true));
        // A process that has escaped and still writes does not delay the end.
        check(&["+7", "c", "+7", "r", "c"], (7, true));
        check(&["+7", "c", "+7", "r", "r"], (7, true));
    }
}
