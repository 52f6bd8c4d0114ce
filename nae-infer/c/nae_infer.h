/* Scores images with a normalized autoencoder.

   Written by cbindgen from nae-infer/c/src/lib.rs; `NAE_WRITE_HEADER=1 cargo test -p nae-infer-c` writes it again.

   A function that fails returns 0, or NULL. If it has the parameter `error`, it writes there why, cut to `error_len` bytes
   with the zero that ends it; `error` may be NULL, and is left as it is if nothing failed. Nothing else is written then. NULL
   for anything that is needed is such a failure. A detector may be used by any number of threads at a time, and is freed once. Where memory runs out, the
   process ends; only the pixels of `nae_detector_score_pixels` that find no memory are a failure. */

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

// Opens an `.onnx` or `.nae` file. `path` is UTF-8. `backend` is "simd", "tract", "ort" or "native", if the library is
// built with it ("ort" is not by default), or NULL for the default. `false_positive_rate`, above 0 and below 1, selects
// the threshold; 0 selects the model's own. Free the detector with `nae_detector_free`.
//
// # Safety
// `path` (NULL is refused) and `backend`, if not null, end in a zero; `error` is null or valid for `error_len` bytes.
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

// Writes the channels, height and width of the network's input. Images of other sizes are resized, except for a model of
// tiles, which cuts an image into tiles of this size and refuses a smaller one. Pass NULL for values that are not
// needed. Returns 1, or 0 if the detector is NULL.
//
// # Safety
// `detector` is null or from `nae_detector_open`; the others are each null or valid for a write.
int32_t nae_detector_input(const struct nae_detector *detector,
                           size_t *channels,
                           size_t *height,
                           size_t *width);

// Returns what a sample of the model is: 1 for an image, 2 for a tile of an image, whose score has no error map, 3 for
// rows of a table, which this interface cannot score, 0 if the detector is NULL.
//
// # Safety
// `detector` is null or from `nae_detector_open`.
int32_t nae_detector_samples(const struct nae_detector *detector);

// Scores an image file: PNG, JPEG, BMP, TIFF, WebP or PNM, or an `.npy` file of one image. `path` is UTF-8. The
// image is turned as its orientation tag (EXIF, TIFF) says. `error_map`, if not NULL, receives height × width values of
// the network's input, row by row: each pixel's error, whose mean is the energy (for the energy ssim, its squared error;
// for a model of features, the energy of the features at its place). It must be NULL for a model of tiles. Returns 1, or
// 0 if there is no score.
//
// # Safety
// `detector`, `path` and `score` may be null, which is refused; otherwise `detector` is from `nae_detector_open`, `path`
// ends in a zero, and `score` is valid for a write. `error_map` is null or valid for height × width values; `error` is
// null or valid for `error_len` bytes.
int32_t nae_detector_score_file(const struct nae_detector *detector,
                                const char *path,
                                struct nae_score *score,
                                float *error_map,
                                char *error,
                                size_t error_len);

// Scores an encoded image in memory: PNG, JPEG, BMP, TIFF, WebP or PNM, of at most 2^30 bytes. Otherwise as
// `nae_detector_score_file`.
//
// # Safety
// `bytes` is null, which is refused, or valid for `length` bytes; a length above 2^30 is refused, and nothing is read.
// Otherwise as for `nae_detector_score_file`.
int32_t nae_detector_score_encoded(const struct nae_detector *detector,
                                   const uint8_t *bytes,
                                   size_t length,
                                   struct nae_score *score,
                                   float *error_map,
                                   char *error,
                                   size_t error_len);

// Scores uncompressed pixels, such as those of a camera: `height` rows of `width` pixels of `channels` bytes, 1 for
// grey or 3 for RGB; `stride` is the number of bytes from one row to the next. Width and height are at most 32,767, and
// width × height × channels at most 2^28. Otherwise as `nae_detector_score_file`.
//
// # Safety
// `pixels` is null, which is refused, or valid for (height - 1) × stride + width × channels bytes; otherwise as for
// `nae_detector_score_file`.
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
