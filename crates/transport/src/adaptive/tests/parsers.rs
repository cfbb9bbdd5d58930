//! The parsers on well-formed and on any bytes.
