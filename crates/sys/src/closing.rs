//! Closes descriptors received from other users, in threads of their own, because closing may hang.
//!
//! A process can send a descriptor whose close blocks: a TCP socket with a long SO_LINGER and unsent data.
//! It is closed when its last holder drops it, and also when a connection is closed whose queue still holds
//! it. A daemon that closes such a connection in its own thread stops serving all users. Therefore values
//! that hold descriptors from others are dropped by [`drop_apart`].

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::own_thread;

/// Maximum number of closing threads at a time. A caller that limits the connections of each user stays far
/// below.
const MOST_THREADS: usize = 512;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Reservation of a thread in `THREADS`; it is released even when the value's `drop` panics.
struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Drops `value` in a thread of its own. If no thread can be started, the value is never dropped: its
/// descriptors stay open until the process ends.
pub fn drop_apart(value: impl Send + 'static) {
    let place = Place;
    if THREADS.fetch_add(1, Ordering::Relaxed) >= MOST_THREADS {
        std::mem::forget(value);
        return;
    }
    // If no thread can be started, the closure is dropped by the caller, but the value must not be.
    let mut value = std::mem::ManuallyDrop::new(value);
    let work = move || {
        let _place = place;
        // SAFETY: taken once, by the only call of this closure.
        drop(unsafe { std::mem::ManuallyDrop::take(&mut value) });
    };
    // Without a thread the value stays open, as documented.
    let _ = own_thread::spawn("tutti-closing", work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Slow(mpsc::Receiver<()>, mpsc::Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
            let _ = self.1.send(());
        }
    }

    #[test]
    fn the_caller_goes_on_while_a_value_is_dropped() {
        let (end, until) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        drop_apart(Slow(until, tell));
        assert!(told.try_recv().is_err());
        end.send(()).unwrap();
        told.recv().unwrap();
    }
}
