//! Algorithms on trees and rings by distance (S3): by messages, and by exposed memory of one node.

pub mod exposed;
pub mod exposed_reduce;
pub mod messages;
