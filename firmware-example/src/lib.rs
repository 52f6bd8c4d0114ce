#![no_std]
//! firmware
