/* Scores the images of firmware-example/vectors/digits.u8 and prints each energy's bits; built by build.sh. */

#include "board.h"
/* Here are the bytes of the model. */
#define DIGITS_IMPLEMENTATION
#include "digits.h"
#include "nae_core.h"

/* By data.S. */
extern const uint8_t images[], images_end[];

static uint32_t arena[DIGITS_ARENA_WORDS_U8];
static nae_core_model model;
static nae_core_alarm alarm;

static void stop_at(nae_core_status status) {
  if (status != NAE_CORE_STATUS_OK) {
    print(nae_core_status_text(status));
    print("\n");
    leave(1);
  }
}

int main(void) {
  nae_core_info info;
  stop_at(nae_core_open(&model, digits_model, DIGITS_LEN));
  stop_at(nae_core_describe(&model, &info));
  if (info.arena_words_u8 != DIGITS_ARENA_WORDS_U8 || info.image_len != DIGITS_IMAGE_LEN) {
    print("digits.h is not of this model\n");
    leave(1);
  }
  /* On at 3 anomalies of the last 5 images, off when one or none is left. */
  stop_at(nae_core_alarm_start(&alarm, 3, 1, 5));
  print("arena ");
  print_decimal(sizeof arena);
  print(" bytes\n");

  uint32_t index = 0, peak = 0;
  for (const uint8_t *image = images; image < images_end; image += DIGITS_IMAGE_LEN, index++) {
    nae_core_score score;
    bool is_on;
    paint_stack();
    count_from_here();
    nae_core_status status =
        nae_core_score_u8(&model, image, DIGITS_IMAGE_LEN, arena, DIGITS_ARENA_WORDS_U8, &score);
    count_to_here();
    const uint32_t stack = used_stack();
    if (stack > peak) peak = stack;
    stop_at(status);
    stop_at(nae_core_alarm_observe(&alarm, score.anomaly, &is_on));

    union { float value; uint32_t bits; } energy = {score.energy};
    print("image ");
    print_decimal(index);
    print(" energy ");
    print_hexadecimal(energy.bits);
    print(score.anomaly == 1 ? " anomaly alarm " : " normal alarm ");
    print(is_on ? "on\n" : "off\n");
  }
  print("stack ");
  print_decimal(peak);
  print(" bytes\n");
  leave(0);
}
