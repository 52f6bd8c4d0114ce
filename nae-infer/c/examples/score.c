/* Scores images with a model, and says where each is strangest:

     cargo build --release -p nae-infer-c
     cc -I nae-infer/c nae-infer/c/examples/score.c target/release/libnae_infer_c.a -lm -lpthread -ldl -o score
     ./score models/digits/digits.onnx models/digits/images/six.png */

#include "nae_infer.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  char error[512];
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL IMAGE...\n", argv[0]);
    return 2;
  }
  nae_detector *detector = nae_detector_open(argv[1], NULL, 0, error, sizeof error);
  if (!detector) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  int samples = nae_detector_samples(detector);
  if (samples == 3) {
    fprintf(stderr, "%s: a model of tables, not of images\n", argv[1]);
    nae_detector_free(detector);
    return 1;
  }
  size_t channels, height, width;
  nae_detector_input(detector, &channels, &height, &width);
  float *map = malloc(height * width * sizeof *map);
  int failed = map == NULL;
  for (int i = 2; i < argc && map; i++) {
    nae_score score;
    /* A model of tiles has no map of one size. */
    float *wanted = samples == 1 ? map : NULL;
    if (!nae_detector_score_file(detector, argv[i], &score, wanted, error, sizeof error)) {
      fprintf(stderr, "%s\n", error);
      failed = 1;
      continue;
    }
    const char *verdict = score.anomaly < 0 ? "unknown" : score.anomaly ? "anomaly" : "normal";
    printf("%s %.9g %.9g %s", argv[i], score.energy, score.p_value, verdict);
    if (wanted) {
      size_t worst = 0;
      for (size_t p = 1; p < height * width; p++)
        if (map[p] > map[worst]) worst = p;
      printf(" at %zu,%zu", worst % width, worst / width);
    }
    printf("\n");
  }
  free(map);
  nae_detector_free(detector);
  return failed;
}
