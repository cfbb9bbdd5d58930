//! Model checking.
