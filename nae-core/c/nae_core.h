/* Scores images with a normalized autoencoder on a microcontroller.

   Written by cbindgen from nae-core/c/src; `NAE_WRITE_HEADER=1 cargo test -p nae-core-c` writes it anew.

   Memory is the caller's: the library allocates nothing and keeps no state of its own. Functions that can fail return a
   `nae_core_status`. On an error the results are not written; the arena may have changed, and a model or an alarm that was
   to be opened or started is closed. NULL is refused by every function, with NAE_CORE_STATUS_NULL, or with
   NAE_CORE_STATUS_NOT_READY while the model is not open. A pointer that is not
   NULL must be valid for as many values as its function says, and what a function writes must not overlap what it reads.

   Numbers are those of every other target, bit for bit. The FPU, where there is one, must be on and in the state that
   reset leaves it in: rounding to nearest, subnormals not flushed. On Cortex-M3, M4, M7, M33, M35P, M55 and M85, every
   function may read words from addresses that are not divisible by 4, also of the stack: the bit UNALIGN_TRP of the register
   CCR must be clear, as reset leaves it (Zephyr sets it with CONFIG_TRAP_UNALIGNED_ACCESS), and the image, the bytes of the
   model and the arena must lie in memory of type Normal. In memory of type Device such a read faults: by default, external
   memory from 0xA0000000 to 0xDFFFFFFF is such, and an MPU region (often used for DMA buffers) can make any address so.

   Some 2 KB of stack are enough for nae_core_open on a Cortex-M; what a score needs depends on the model (README).

   In an optimised build without overflow checks, no function panics, whatever bytes it is given. The README says how this is
   checked. */

#ifndef NAE_CORE_H
#define NAE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The longest window of an alarm, in verdicts.
#define NAE_CORE_ALARM_WINDOW_MAX 32

// The result of a function: 0 for success, else the reason of the failure.
enum nae_core_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Success.
  NAE_CORE_STATUS_OK = 0,
  // A pointer is NULL.
  NAE_CORE_STATUS_NULL = 1,
  // The model was not opened, or its last opening failed; or the alarm was not started.
  NAE_CORE_STATUS_NOT_READY = 2,
  // An address is not divisible by the alignment of its values: 4 for the bytes of a model, the arena, floats and
  // `nae_core_score`, 8 for `nae_core_model`, `nae_core_info` and `nae_core_alarm`.
  NAE_CORE_STATUS_ALIGNMENT = 3,
  // The arena overlaps the image, the score, the model, or the bytes that the model was opened from.
  NAE_CORE_STATUS_OVERLAP = 4,
  // The bytes are not a .nae file.
  NAE_CORE_STATUS_NOT_A_MODEL = 5,
  // A .nae file of another version of the format than this library reads. Additions to the format do not change its
  // version: a newer file can also be refused with HEADER or LAYER.
  NAE_CORE_STATUS_VERSION = 6,
  // The file is shorter or longer than the length in its header; or, of any function, what a pointer and a length describe
  // passes the end of the address space.
  NAE_CORE_STATUS_LENGTH = 7,
  // The checksum is wrong: the file was altered.
  NAE_CORE_STATUS_CHECKSUM = 8,
  // The checksum is right, and the header or the calibration is invalid, or has a flag, energy or resize filter that
  // is unknown to this library: a newer version may have made the file.
  NAE_CORE_STATUS_HEADER = 9,
  // The checksum is right, and a layer is invalid, or has a kind or an activation that is unknown to this library: a
  // newer version may have made the file.
  NAE_CORE_STATUS_LAYER = 10,
  // The model needs operators that this library was built without.
  NAE_CORE_STATUS_OPERATORS = 11,
  // The processor is big-endian; models are little-endian.
  NAE_CORE_STATUS_ENDIANNESS = 12,
  // The image has another length than the model's input.
  NAE_CORE_STATUS_IMAGE_LENGTH = 13,
  // The model takes 8-bit values and was given floats, or the reverse.
  NAE_CORE_STATUS_IMAGE_TYPE = 14,
  // The arena is shorter than the model needs.
  NAE_CORE_STATUS_ARENA_LENGTH = 15,
  // A value of the image, or an energy, is NaN or infinite.
  NAE_CORE_STATUS_NON_FINITE = 16,
  // The reconstruction or its energy passed the range of floats.
  NAE_CORE_STATUS_OVERFLOW = 17,
  // The model has no calibration.
  NAE_CORE_STATUS_NO_CALIBRATION = 18,
  // A false-positive rate is not between 0 and 1, both excluded.
  NAE_CORE_STATUS_RATE = 19,
  // The rate is below 1/(n + 1), where n is the number of calibration energies.
  NAE_CORE_STATUS_RATE_TOO_LOW = 20,
  // The settings are not 0 <= clear < raise <= window <= NAE_CORE_ALARM_WINDOW_MAX.
  NAE_CORE_STATUS_ALARM_SETTINGS = 21,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum nae_core_status nae_core_status;
#else
typedef int32_t nae_core_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A model that `nae_core_open` has opened. Its fields are private to the library. It points into the bytes it was
// opened from and nowhere else, so it may be copied by `=`. Nothing needs to be freed.
//
// Once opened it is only read: any number of threads may use it at the same time, each with its own arena.
typedef struct nae_core_model {
  // Whether it was opened: not for the caller.
  uint64_t opened;
  // Not for the caller.
  size_t state[58];
} nae_core_model;

// Properties of a model.
typedef struct nae_core_info {
  // The cost of one score, in units of about one multiply-accumulate. A device that takes models from outside can
  // refuse a model that would run too long. The sum of `multiply_accumulates`, each value that a layer writes (4
  // times if it is interpolated or normalized, 16 times if its activation has an exponential), another 8 for each
  // that is a sum of products, a maximum or a mean, or changes its 8-bit scale, 64 for each pixel that a
  // convolution, a pooling, a resizing or the normalization of a pixel writes, 4 times the bytes of images that
  // 8-bit convolutions copy, 64 for each layer or part of one that is started by itself (rows and phases of 8-bit
  // convolutions, groups at a place), and the energy: each value of the image, or for structural similarity 5 times
  // each value of each window of 11 x 11. Floats without an FPU take some fifty times as long.
  uint64_t operations;
  // Multiply-accumulates of convolutions and dense layers, and values that pooling layers read, padding included in
  // both. Other layers and the energy are not counted, so only `operations` limits the time.
  uint64_t multiply_accumulates;
  // Channels of the image.
  size_t channels;
  // Rows of the image.
  size_t height;
  // Columns of the image.
  size_t width;
  // Values of an image: channels * height * width.
  size_t image_len;
  // Words of 4 bytes that `nae_core_score_i8` and `nae_core_score_f32` need as arena.
  size_t arena_words;
  // Words of 4 bytes that `nae_core_score_u8` needs as arena. Never fewer than `arena_words`.
  size_t arena_words_u8;
  // Number n of calibration energies; 0 for a model without calibration.
  uint32_t calibration_count;
  // 1 for a model that takes 8-bit values, 0 for one that takes floats.
  int32_t is_int8;
  // 1 if the device makes samples by steps that the file does not contain, such as a crop or the columns of a table; 0 if a
  // sample is an image of the model's size.
  int32_t is_prepared;
  // Scale of 8-bit values: a value q represents scale * (q - zero_point). NaN for a model that takes floats.
  float scale;
  // Zero point of 8-bit values, see `scale`; 0 for a model that takes floats.
  int32_t zero_point;
  // The model's value for a black pixel (0).
  float low;
  // The model's value for a white pixel (255), up to rounding: a pixel p has the value low + p / 255 * (high - low).
  float high;
  // An energy above it is an anomaly; NaN for a model without threshold.
  float threshold;
  // The largest share of normal images above the threshold; NaN for a model without threshold.
  float false_positive_rate;
} nae_core_info;

// Score of one image.
typedef struct nae_core_score {
  // The higher, the less normal: the mean squared (or absolute) difference of an image and its reconstruction, or
  // one minus their similarity, depending on the model. Finite.
  float energy;
  // Share of normal images with an energy at least as high, in (0, 1]; NaN for a model without calibration.
  float p_value;
  // An energy above it is an anomaly; NaN for a model without threshold.
  float threshold;
  // 1 for an anomaly, 0 for a normal image, -1 for a model without threshold. Compare it with 1: in C, -1 is true.
  int32_t anomaly;
} nae_core_score;

// An alarm that `nae_core_alarm_start` has started: it turns on at `raise` anomalies among the last `window` images,
// and off at `clear` or fewer. Its fields are private to the library. It contains no pointers, so it may be copied by
// `=`. Nothing needs to be freed. One thread at a time may use it.
typedef struct nae_core_alarm {
  // Whether it was started: not for the caller.
  uint64_t started;
  // Not for the caller.
  size_t state[20];
} nae_core_alarm;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of a status: English, ASCII, one line, ended by a zero. Valid as long as the program runs, never NULL. Any
// number is accepted.
const char *nae_core_status_text(int32_t status);

// Version of the library, such as "0.1.0", ended by a zero. Valid as long as the program runs, never NULL.
const char *nae_core_version(void);

// Opens a model: checks `length` bytes of a `.nae` file as a whole, so that nothing has to be checked afterwards, and
// writes to `model` the state that reads them in place. Time is linear in the length, plus the square of the number of
// layers: some 490 instructions for each pair of layers on a Cortex-M4F, which are 16 million for 256 layers, the
// largest number of layers of a model.
//
// The bytes may come from anywhere and may be damaged: they are either refused, or run within the arena. The address
// of `bytes` must be divisible by 4. They must stay in place, unchanged, as long as the model is used.
//
// Errors: NULL; ALIGNMENT; NOT_A_MODEL, VERSION, LENGTH, CHECKSUM, HEADER or LAYER for a fault of the file; OPERATORS;
// ENDIANNESS. After an error `model` is closed: every function refuses it with NOT_READY. If `model` itself is not
// aligned, it is unchanged, and every function refuses it with ALIGNMENT.
//
// # Safety
// `model` is null or valid for a write; `bytes` is null or valid for `length` bytes.
nae_core_status nae_core_open(struct nae_core_model *model, const uint8_t *bytes, size_t length);

// Writes to `info` the properties of a model: the image it takes, the arena it needs, its threshold.
//
// Errors: NULL, NOT_READY, ALIGNMENT.
//
// # Safety
// `model` is null, zeros, or from `nae_core_open`; `info` is null or valid for a write.
nae_core_status nae_core_describe(const struct nae_core_model *model, struct nae_core_info *info);

// Writes to `p_value` the share of normal images with an energy at least as high, in (0, 1]: the conformal p-value
// (1 + number of calibration energies >= energy)/(n + 1).
//
// Errors: NULL, NOT_READY, ALIGNMENT; NO_CALIBRATION; NON_FINITE for an energy that is NaN or infinite.
//
// # Safety
// `model` is null, zeros, or from `nae_core_open`; `p_value` is null or valid for a write.
nae_core_status nae_core_p_value(const struct nae_core_model *model, float energy, float *p_value);

// Writes to `threshold` the energy above which an image is an anomaly, so that at most the share `false_positive_rate`
// of normal images is above it. This is for another rate than the model's own, which `nae_core_describe` gives.
//
// Errors: NULL, NOT_READY, ALIGNMENT; NO_CALIBRATION; RATE unless 0 < rate < 1; RATE_TOO_LOW below 1/(n + 1).
//
// # Safety
// `model` is null, zeros, or from `nae_core_open`; `threshold` is null or valid for a write.
nae_core_status nae_core_threshold(const struct nae_core_model *model, float false_positive_rate, float *threshold);

// Scores pixels of a camera: 0 for black to 255 for white, `pixels_len` bytes, row by row, the channels of a pixel
// side by side (HWC). The library converts pixels to the range and type of any
// model whose samples are images (`is_prepared` of its `nae_core_info` is 0).
//
// `pixels_len` must be the `image_len` of `nae_core_describe`, and `arena_words` its `arena_words_u8` or more. The
// arena is working memory: its previous contents do not matter, and it may be used otherwise between two scores. Its
// address must be divisible by 4.
//
// Errors: NULL, NOT_READY, ALIGNMENT, OVERLAP; IMAGE_LENGTH; ARENA_LENGTH; OVERFLOW.
//
// # Safety
// `model` is null, zeros, or from `nae_core_open`; `pixels` is null or valid for `pixels_len` bytes; `arena` is null or
// valid for reads and writes of `arena_words` words; `score` is null or valid for a write. Nothing else uses the arena
// meanwhile.
nae_core_status nae_core_score_u8(const struct nae_core_model *model,
                                  const uint8_t *pixels,
                                  size_t pixels_len,
                                  uint32_t *arena,
                                  size_t arena_words,
                                  struct nae_core_score *score);

// Scores the values of an image for a model of 8 bits: q represents scale * (q - zero_point), with the numbers of
// `nae_core_describe`. `arena_words` is its `arena_words` or more; the rest is as for `nae_core_score_u8`.
//
// Errors: those of `nae_core_score_u8`, and IMAGE_TYPE for a model that takes floats.
//
// # Safety
// As for `nae_core_score_u8`; `values` is null or valid for `values_len` bytes.
nae_core_status nae_core_score_i8(const struct nae_core_model *model,
                                  const int8_t *values,
                                  size_t values_len,
                                  uint32_t *arena,
                                  size_t arena_words,
                                  struct nae_core_score *score);

// Scores the values of an image for a model of floats: between `low` and `high` of `nae_core_describe`; values outside
// are scored, too, if they are finite. The address of `values` must be divisible by 4. `arena_words` is the
// `arena_words` of `nae_core_describe` or more; the rest is as for `nae_core_score_u8`.
//
// Errors: those of `nae_core_score_u8`; IMAGE_TYPE for a model that takes 8-bit values; NON_FINITE for a value that is
// NaN or infinite.
//
// # Safety
// As for `nae_core_score_u8`; `values` is null or valid for `values_len` floats.
nae_core_status nae_core_score_f32(const struct nae_core_model *model,
                                   const float *values,
                                   size_t values_len,
                                   uint32_t *arena,
                                   size_t arena_words,
                                   struct nae_core_score *score);

// Starts an alarm, off and without a verdict, or restarts it. Among the last `window` verdicts, `raise` anomalies turn
// it on, and `clear` or fewer turn it off.
//
// Errors: NULL; ALIGNMENT; ALARM_SETTINGS unless 0 <= clear < raise <= window <= NAE_CORE_ALARM_WINDOW_MAX. After
// ALARM_SETTINGS, `alarm` is refused with NOT_READY.
//
// # Safety
// `alarm` is null or valid for a write.
nae_core_status nae_core_alarm_start(struct nae_core_alarm *alarm, size_t raise, size_t clear, size_t window);

// Adds the verdict on the next image, the `anomaly` of its score: 1 for an anomaly; any other number counts as normal,
// also -1 for a model without threshold. Writes to `is_on` whether the alarm is on. Takes constant time.
//
// Errors: NULL, NOT_READY, ALIGNMENT; the verdict is not added then.
//
// # Safety
// `alarm` is null, zeros, or from `nae_core_alarm_start`; `is_on` is null or valid for a write.
nae_core_status nae_core_alarm_observe(struct nae_core_alarm *alarm, int32_t anomaly, bool *is_on);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NAE_CORE_H */
