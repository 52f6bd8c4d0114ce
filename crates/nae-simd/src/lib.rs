//! The layers of convolutional autoencoders on a processor's vector instructions, channels last: for training, where
//! Langevin chains ask for thousands of gradients with respect to the input, and for scoring.
//!
//! [`correlate`] has the loop that most time goes into, for convolutions, transposed convolutions and dense layers, and
//! [`winograd`] a quicker one for three by three taps; [`geometry`] says what they read and [`kernel`] how their
//! weights are laid out. [`gradient`] and [`outer`] make the gradients of weights. [`group`] normalises, and
//! [`resample`] and [`pointwise`] are the layers without weights, each with its way back. [`plane`] is the activations,
//! [`buffers`] their memory, [`vector`] what the loops share. What a network is, and in which order its layers run, is
//! for others: `nae-train` and `nae-infer`.
//!
//! [`instructions`] chooses the instruction set at run time. Results depend neither on the batch nor on threads.

#![forbid(unsafe_code)]

pub mod buffers;
pub mod correlate;
pub mod geometry;
pub mod gradient;
pub mod group;
pub mod instructions;
pub mod kernel;
pub mod outer;
pub mod plane;
pub mod pointwise;
pub mod resample;
pub mod vector;
pub mod winograd;
