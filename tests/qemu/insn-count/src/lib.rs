#![allow(unsafe_code)]
//! QEMU plugin (TCG plugin API version 1: QEMU 6 to 8) that counts the instructions a guest executes
//! between two marks, and in total, and its memory accesses (a load of several words is one access a word). It
//! counts instructions, not cycles. Unsafe because QEMU calls it
//! through C functions.
//!
//! The marks are instructions that change nothing and that compilers do not emit: on Arm Thumb
//! `mov r10, r10` begins a region and `mov r11, r11` ends it, on RISC-V `slti x0, x0, 1` and `slti x0, x0, 2` do. At the end of the run one line a region and one
//! for the total go to the file named by `out=FILE`, or to standard error:
//!
//! ```text
//! region 3021544 accesses 802113
//! total 61239871 accesses 10239912
//! ```
//!
//! `qemu-system-arm … -plugin file=libinsn_count.so,out=counts.txt`

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The marks of an architecture, as it has them in memory: what begins a region, and what ends it.
struct Marks {
    begin: &'static [u8],
    end: &'static [u8],
}

/// `mov r10, r10` and `mov r11, r11`.
const THUMB: Marks = Marks { begin: &0x46D2u16.to_le_bytes(), end: &0x46DBu16.to_le_bytes() };
/// `slti x0, x0, 1` and `slti x0, x0, 2`. The bytes of the others are usual instructions here.
const RISC_V: Marks = Marks { begin: &0x0010_2013u32.to_le_bytes(), end: &0x0020_2013u32.to_le_bytes() };

/// The version of the plugin interface this was written for. QEMU refuses to load another.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

type TranslateCallback = extern "C" fn(u64, *mut c_void);
type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: TranslateCallback);
    fn qemu_plugin_register_atexit_cb(id: u64, callback: TranslateCallback, data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void) -> *const u8;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: ExecuteCallback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_inline(
        instruction: *mut c_void,
        direction: c_int,
        operation: c_int,
        counter: *mut c_void,
        amount: u64,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut c_void,
        operation: c_int,
        counter: *mut c_void,
        amount: u64,
    );
}

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`.
const READS_AND_WRITES: c_int = 3;
/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

/// Instructions executed so far. QEMU's generated code adds to it; there is one processor.
static EXECUTED: AtomicU64 = AtomicU64::new(0);
/// Memory accesses so far.
static ACCESSED: AtomicU64 = AtomicU64::new(0);
static REGIONS: Mutex<Regions> = Mutex::new(Regions { started: None, lengths: Vec::new() });
static OUTPUT: OnceLock<String> = OnceLock::new();
static MARKS: OnceLock<Marks> = OnceLock::new();

/// Instructions and memory accesses.
#[derive(Clone, Copy)]
struct Counts {
    executed: u64,
    accessed: u64,
}

impl Counts {
    fn now() -> Self {
        Self { executed: EXECUTED.load(Relaxed), accessed: ACCESSED.load(Relaxed) }
    }
}

struct Regions {
    started: Option<Counts>,
    lengths: Vec<Counts>,
}

extern "C" fn begin(_processor: c_uint, _data: *mut c_void) {
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    regions.started = Some(Counts::now());
}

extern "C" fn end(_processor: c_uint, _data: *mut c_void) {
    let mut regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = regions.started.take() {
        let now = Counts::now();
        regions
            .lengths
            .push(Counts { executed: now.executed - started.executed, accessed: now.accessed - started.accessed });
    }
}

/// Called for each block of instructions before it first runs.
extern "C" fn translate(_id: u64, block: *mut c_void) {
    let Marks { begin: first, end: last } = MARKS.get().unwrap_or(&THUMB);
    // SAFETY: `block` is valid during this call, and so is what QEMU returns for it.
    unsafe {
        for index in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let bytes =
                std::slice::from_raw_parts(qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction));
            // QEMU 7.2 reports a short instruction before the end of a page as longer: compare the start.
            let mark: Option<ExecuteCallback> = match bytes {
                bytes if bytes.starts_with(first) => Some(begin),
                bytes if bytes.starts_with(last) => Some(end),
                _ => None,
            };
            qemu_plugin_register_vcpu_mem_inline(instruction, READS_AND_WRITES, ADD, ACCESSED.as_ptr().cast(), 1);
            match mark {
                Some(mark) => {
                    qemu_plugin_register_vcpu_insn_exec_cb(instruction, mark, NO_REGISTERS, std::ptr::null_mut())
                }
                None => qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, EXECUTED.as_ptr().cast(), 1),
            }
        }
    }
}

extern "C" fn finish(_id: u64, _data: *mut c_void) {
    let regions = REGIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    let mut line = |name: &str, counts: Counts| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} {} accesses {}", counts.executed, counts.accessed);
    };
    for length in &regions.lengths {
        line("region", *length);
    }
    line("total", Counts::now());
    match OUTPUT.get() {
        None => eprint!("{text}"),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                eprintln!("insn-count: {path}: {error}");
            }
        }
    }
}

/// The start of QEMU's `qemu_info_t`.
#[repr(C)]
pub struct Info {
    /// The architecture, such as `arm` or `riscv32`.
    target_name: *const c_char,
}

/// QEMU's entry point.
///
/// # Safety
/// `info` must be QEMU's, and `arguments` `count` C strings, as QEMU passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: by this function's contract.
    let target = unsafe { CStr::from_ptr((*info).target_name) };
    let _ = MARKS.set(if target.to_bytes().starts_with(b"riscv") { RISC_V } else { THUMB });
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by this function's contract.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy();
        match argument.strip_prefix("out=") {
            Some(path) => drop(OUTPUT.set(path.to_owned())),
            None => {
                eprintln!("insn-count: unknown argument {argument}; it takes out=FILE");
                return 1;
            }
        }
    }
    // SAFETY: `id` is QEMU's, and the callbacks have the types it wants.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
        qemu_plugin_register_atexit_cb(id, finish, std::ptr::null_mut());
    }
    0
}
