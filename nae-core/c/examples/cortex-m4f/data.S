/* The images that are scored; build.sh says where they are. */
  .section .rodata.images, "a"
  .global images, images_end
images:
  .incbin IMAGES
images_end:
