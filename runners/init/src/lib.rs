//! What the server and `sandbox-init` exchange: frames one way, messages the other.
//!
//! The contract is `runners/PROTOCOL.md`. This library has its sections 3 and 4 and nothing that needs an operating
//! system, so that the server and PID 1 are built from the same source. The program itself is the binary of this crate.

mod frames;
mod messages;
mod records;
pub mod variables;

pub use frames::{
    Cell, FRAME_MAX, Frame, FrameError, FrameReader, HATCH_PATH, Handed, Interrupt, Listen,
    MUST_NOT_REACH_MAX, Park, Run, SOCKETS_HANDED_MAX, encode_frame,
};
pub use messages::{
    Message, MessageError, MessageReader, PAYLOAD_MAX, Stream, encode_output, encode_record,
};
pub use records::{
    BUFFERS_MAX, End, Excess, Held, Network, Ready, Record, SOCKETS_MAX, Status, TERMINALS_MAX,
};
