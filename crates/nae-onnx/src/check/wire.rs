//! Counts the messages in a model's bytes before they are decoded.
//!
//! An empty message takes two bytes in a file and about two hundred in memory, so that a file of
//! moderate size could exhaust the memory. Tensor data, strings and numbers do not grow in this way
//! and are not counted.

use prost::DecodeError;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    /// A message whose fields are strings and numbers.
    Leaf,
}

impl Kind {
    /// The kind of message in a field, as declared in [`proto`](crate::proto).
    fn child(self, field: u32) -> Option<Self> {
        Some(match (self, field) {
            (Self::Model, 7) => Self::Graph,
            (Self::Model, 8 | 14) | (Self::Tensor, 13) => Self::Leaf,
            (Self::Graph, 1) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5) => Self::Tensor,
            (Self::Graph, 11..=13) => Self::ValueInfo,
            (Self::Node, 5) => Self::Attribute,
            (Self::ValueInfo, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Shape, 1) => Self::Leaf,
            _ => return None,
        })
    }
}

/// Counts length-delimited fields in `bytes` and in nested messages, up to `limit` + 1.
///
/// # Errors
/// If `bytes` is not a protocol buffer.
pub(super) fn count(bytes: &[u8], kind: Kind, limit: u64) -> Result<u64, DecodeError> {
    let mut total = 0;
    // Nesting is as deep as `Kind` permits, but messages repeat: this uses a stack, not recursion.
    let mut pending = vec![(bytes, kind)];
    while let Some((mut rest, kind)) = pending.pop() {
        while rest.has_remaining() {
            let (field, wire_type) = decode_key(&mut rest)?;
            if !matches!(wire_type, WireType::LengthDelimited) {
                skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
                continue;
            }
            let length = decode_varint(&mut rest)?;
            let Some((inner, after)) = usize::try_from(length).ok().and_then(|n| rest.split_at_checked(n)) else {
                // The decoder's own error, whose type cannot be constructed here.
                skip_field(WireType::LengthDelimited, field, &mut [0xff, 0x01].as_slice(), DecodeContext::default())?;
                return Ok(total);
            };
            rest = after;
            total += 1;
            if total > limit {
                return Ok(total);
            }
            if let Some(child) = kind.child(field) {
                pending.push((inner, child));
            }
        }
    }
    Ok(total)
}
