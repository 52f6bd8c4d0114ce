/* Scores images with a normalized autoencoder.

   Written by cbindgen from nae-infer/c/src/lib.rs; `NAE_WRITE_HEADER=1 cargo test -p nae-infer-c` writes it anew.

   Every function that can fail returns 0, or NULL, and writes why into `error`, cut to `error_len` bytes with the zero
   that ends it; `error` may be NULL. A detector may be used by any number of threads at a time, and is freed once. */

#ifndef NAE_INFER_H
#define NAE_INFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A model that is ready to score.
typedef struct nae_detector nae_detector;

// The score of an image.
typedef struct nae_score {
  // The energy; the higher, the less normal.
  float energy;
  // The fraction of normal images with at least this energy, in (0, 1]; NaN for a model without calibration.
  float p_value;
  // The threshold; a higher energy is an anomaly. NaN for a model without a threshold.
  float threshold;
  // 1 for an anomaly, 0 for a normal image, -1 for a model without a threshold. Compare it with 1: in C, -1 is true.
  int32_t anomaly;
} nae_score;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens an `.onnx` or `.nae` file. `backend` is "simd", "tract", "ort" or "native", or NULL for the default.
// `false_positive_rate`, above 0 and below 1, selects the threshold; 0 selects the model's own. Free the detector with
// `nae_detector_free`.
//
// # Safety
// `path` and `backend`, if not null, end in a zero; `error` is null or valid for `error_len` bytes.
struct nae_detector *nae_detector_open(const char *path,
                                       const char *backend,
                                       float false_positive_rate,
                                       char *error,
                                       size_t error_len);

// Frees a detector; does nothing for NULL.
//
// # Safety
// `detector` is null or from `nae_detector_open`, not freed yet, and not in use.
void nae_detector_free(struct nae_detector *detector);

// Writes the channels, height and width of the network's input; images of other sizes are resized. Pass NULL for
// values that are not needed. Returns 1, or 0 if the detector is NULL.
//
// # Safety
// `detector` is null or from `nae_detector_open`; the others are each null or valid for a write.
int32_t nae_detector_input(const struct nae_detector *detector, size_t *channels, size_t *height, size_t *width);

// Scores an image file: PNG, JPEG, BMP, TIFF, WebP, PGM or PPM. `error_map`, if not NULL, receives each pixel's
// contribution to the energy (for the energy ssim, its squared error), height × width values of the network's input,
// row by row; it must be NULL for a model of tiles. Returns 1, or 0 if there is no score.
//
// # Safety
// `detector` is from `nae_detector_open`; `path` ends in a zero; `score` is valid for a write; `error_map` is
// null or valid for height × width values; `error` is null or valid for `error_len` bytes.
int32_t nae_detector_score_file(const struct nae_detector *detector,
                                const char *path,
                                struct nae_score *score,
                                float *error_map,
                                char *error,
                                size_t error_len);

// Scores an encoded image in memory: PNG, JPEG, BMP, TIFF, WebP, PGM or PPM. Otherwise as `nae_detector_score_file`.
//
// # Safety
// `bytes` is valid for `length` bytes; otherwise as for `nae_detector_score_file`.
int32_t nae_detector_score_encoded(const struct nae_detector *detector,
                                   const uint8_t *bytes,
                                   size_t length,
                                   struct nae_score *score,
                                   float *error_map,
                                   char *error,
                                   size_t error_len);

// Scores uncompressed pixels, such as those of a camera: `height` rows of `width` pixels of `channels` bytes, 1 for
// grey or 3 for RGB; `stride` is the number of bytes from one row to the next. Width and height are at most 32,767.
// Otherwise as `nae_detector_score_file`.
//
// # Safety
// `pixels` is valid for (height - 1) × stride + width × channels bytes; otherwise as for `nae_detector_score_file`.
int32_t nae_detector_score_pixels(const struct nae_detector *detector,
                                  const uint8_t *pixels,
                                  size_t width,
                                  size_t height,
                                  size_t channels,
                                  size_t stride,
                                  struct nae_score *score,
                                  float *error_map,
                                  char *error,
                                  size_t error_len);

// Returns the version of the library, a text that is valid as long as the library is loaded.
const char *nae_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NAE_INFER_H */
