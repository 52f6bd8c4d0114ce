//! For each equation, table row and algorithm line of the paper: its implementation, and the test that verifies it.
//!
//! Yoon, Noh and Park, "Autoencoding Under Normalization Constraints", ICML 2021. Equations are numbered as in the
//! paper's compiled source. Tests are identified by their file and their function. A test checks that each named test
//! exists and that its file mentions the item of the row. If the paper's text, its tables and the authors' code differ,
//! the last table gives the choice made here.
//!
//! # Equations
//!
//! | | what | item | test |
//! |---|---|---|---|
//! | 1, 2 | an autoencoder's loss and its gradient | [`AutoencoderMethod`](nae_train::methods::autoencoder::AutoencoderMethod) | `nae-train/src/methods/finite_differences.rs` `the_autoencoder_steps_by_the_gradient_of_its_loss` |
//! | 3, 9 | reconstruction error, the energy: squared L2, L1, SSIM | [`energy`](nae_train::energy) | `nae-train/tests/method/energies.rs` `values_are_nae_cores`, `gradients_are_those_of_the_reference` |
//! | 4, 10 | p(x) ∝ exp(−E(x)/T) | [`Metropolis`](nae_train::sample::Metropolis) | `nae-train/tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures` |
//! | 5 | Ω, in two dimensions | [`GridDensity`](crate::density::GridDensity) | `crates/nae-lab/src/density/grid.rs` `omega_of_a_quadratic_energy` |
//! | 6, 7, 11, 12 | the gradient of the negative log-likelihood | [`nae::loss`](nae_train::methods::nae::loss) | `nae-train/tests/method/likelihood_gradient.rs` `equation_12_is_the_gradient_of_the_integrated_likelihood`; `nae-train/src/methods/finite_differences.rs` `the_nae_steps_by_the_gradient_of_its_loss` |
//! | 8 | Langevin Monte Carlo among images | [`Langevin`](nae_train::sample::Langevin) | `nae-train/tests/method/chain.rs` `chains_in_space_are_those_of_float64`; `nae-train/src/sample/langevin.rs` `a_quadratic_energy_gives_the_closed_form_variance`; `nae-train/tests/method/langevin_density.rs` `the_bias_of_a_gaussian_is_the_closed_forms` |
//! | 13 | the decoder's manifold | [`Autoencoder::decode`](nae_train::arch::Autoencoder::decode) | `nae-train/tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | 14, 15 | on-manifold density and energy H(z) | [`on_manifold_energy`](nae_train::energy::on_manifold_energy) | `nae-train/tests/method/architectures.rs` `input_gradients_of_every_architecture_are_finite_differences` |
//! | 16 | the latent chain | [`Langevin`](nae_train::sample::Langevin), [`NegativeSampler`](nae_train::sample::NegativeSampler) | `nae-train/tests/method/chain.rs` `chains_on_the_sphere_are_those_of_float64`, `every_stage_of_a_draw_has_a_lower_energy` |
//! | 17–20 | the linear NAE is a Gaussian | – | `nae-train/tests/method/linear_nae.rs` `the_sampled_gradient_of_log_omega_is_the_closed_form`, `trained_by_samples_the_model_has_the_datas_covariance` |
//!
//! # Section 4.1: starts of the chains
//!
//! | what | item | test |
//! |---|---|---|
//! | CD-k | [`Start::Data`](nae_train::sample::Start::Data) | `nae-train/tests/method/sampler_starts.rs` `contrastive_divergence_starts_at_the_data` |
//! | PCD | [`Start::Persistent`](nae_train::sample::Start::Persistent) | `nae-train/tests/method/sampler_starts.rs` `persistent_chains_go_on_where_they_were` |
//! | PCD with restart | the same with `restart` | `nae-train/tests/method/sampler_starts.rs` `a_share_of_persistent_chains_begins_anew` |
//! | noise, with the replay buffer that the authors' code calls PCD | [`Start::Noise`](nae_train::sample::Start::Noise) | `nae-train/tests/method/sampler_starts.rs` `noise_fills_the_box_of_the_chain`, `a_replay_buffer_of_images_gives_earlier_ends` |
//! | on-manifold initialization | [`Start::OnManifold`](nae_train::sample::Start::OnManifold) | `nae-train/tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | perturbed latents of data (MPDR, a later paper) | [`Start::PerturbedData`](nae_train::sample::Start::PerturbedData) | `nae-train/tests/method/sampler_starts.rs` `perturbed_data_is_near_the_datas_latents` |
//! | the recovery likelihood, which attracts chains to those latents (MPDR) | [`Recovery`](nae_train::sample::Recovery) | `nae-train/tests/method/sampler_starts.rs` `chains_are_drawn_back_to_the_latents_that_they_started_from`; `nae-train/tests/method/engine.rs` `what_draws_samples_back_is_the_closed_form_in_both_engines` |
//! | steps along the direction of the gradient, on the sphere along it (MPDR) | `normalize` of [`Langevin`](nae_train::sample::Langevin) | `nae-train/tests/method/chain.rs` `chains_on_the_sphere_are_those_of_float64` |
//! | a manifold that is not trained (MPDR) |  `training.fixed_manifold`, [`NaeMethod::on_manifold_of`](nae_train::methods::nae::NaeMethod::on_manifold_of) | `nae-train/src/methods/nae/mod.rs` `chains_go_along_the_manifold_of_another_autoencoder`, `negative_samples_are_of_the_manifold_that_is_given` |
//! | several of them, of different D_z (MPDR-R) |  [`NaeMethod::and_on_manifold_of`](nae_train::methods::nae::NaeMethod::and_on_manifold_of) | `nae-train/src/methods/nae/mod.rs` `every_manifold_has_its_part_of_the_negative_samples` |
//! | an energy that is a network's output, and several manifolds (MPDR-S) | [`ManifoldDiffusion`](nae_train::config::ManifoldDiffusion) | `nae-train/src/methods/mpdr.rs` `latent_chains_go_down_the_energy_of_the_manifolds_images`, `every_manifold_has_its_part_of_the_batch`, `the_manifolds_learn_before_the_network_does`; `nae-train/src/methods/energy_network.rs` `it_steps_by_the_gradient_of_its_loss` |
//!
//! # Section 6.1: technicalities
//!
//! | what | item | test |
//! |---|---|---|
//! | pre-training as an autoencoder | [`Trainer::train`](nae_train::train::Trainer::train) | `nae-train/src/methods/finite_differences.rs` `pre_training_is_adam_on_gradients_of_a_limited_norm`; `nae-train/cli/tests/program/cli.rs` `a_run_leaves_a_model_a_report_and_a_folder_to_export_from` |
//! | ℝ^D and the unit sphere; projection | [`LatentSpace`](nae_train::arch::LatentSpace) | `nae-train/tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | q₀(z): standard normal, uniform on the sphere | [`NoiseSource::latents`](nae_train::sample::NoiseSource::latents) | `nae-train/src/sample/noise.rs` `latents_of_the_plane_are_standard_normal`, `latents_of_the_sphere_are_uniform` |
//! | ‖z‖² added to the loss | [`Regularization::latent_norm`](nae_train::config::Regularization::latent_norm), in pre-training [`Pretraining::latent_norm`](nae_train::config::Pretraining::latent_norm) | `nae-train/src/methods/nae/loss.rs` `the_latent_norm_is_a_mean_over_both_batches`; `nae-train/src/methods/finite_differences.rs` `the_nae_steps_by_the_gradient_of_its_loss`, `the_autoencoder_steps_by_the_gradient_of_its_loss` |
//! | α·mean E(x′)², γ here | [`Regularization::negative_energy`](nae_train::config::Regularization::negative_energy) | `nae-train/src/methods/finite_differences.rs` `the_nae_steps_by_the_gradient_of_its_loss` |
//!
//! # Section 6.2: two dimensions
//!
//! | what | item | test |
//! |---|---|---|
//! | 8 Gaussians | [`Mixture::eight_gaussians`](crate::density::Mixture::eight_gaussians) | `crates/nae-lab/src/density/mixture.rs` `the_ring_is_the_papers`; `crates/nae-lab/src/density/grid.rs` `the_eight_gaussians_are_normalized` |
//! | densities on [−4, 4]² and their distances | [`GridDensity`](crate::density::GridDensity) | `crates/nae-lab/src/density/grid.rs` `distances_between_gaussians` |
//! | the experiment | [`gaussians8`](crate::experiments::gaussians8) | `nae-train/tests/method/presets.rs` `eight_gaussians_have_the_papers_numbers` |
//! | tables of AUROC on MNIST: hold-out, other data, pre-training, sampling parameters, D_z | [`detection`](crate::experiments::detection) | `crates/nae-lab/src/experiments/detection/settings.rs` `every_experiment_can_be_made_at_every_scale`; `nae-train/cli/tests/program/reproduce.rs` `held_out_digits_give_a_table_beside_the_papers_and_go_on_where_they_were` |
//! | D_z and WAE's weight searched by the selection set ("Baseline Implementation") | [`DetectionSettings`](crate::experiments::detection::DetectionSettings) | `crates/nae-lab/src/experiments/detection/search.rs` `every_value_is_tried_with_every_other`, `the_selection_set_chooses_for_each_column_and_the_first_of_equals_is_taken`; `nae-train/src/train/mod.rs` `the_selection_set_is_told_by_the_decision_that_is_asked_for`; `nae-train/cli/tests/program/reproduce.rs` `a_search_is_decided_by_the_selection_set` |
//!
//! # Figures
//!
//! | what | item | test |
//! |---|---|---|
//! | sampling with a randomly initialized NAE | [`random_init`](crate::experiments::pictures::random_init) | `nae-train/cli/tests/program/pictures.rs` `on_manifold_starts_have_lower_energies_than_data_in_a_fresh_model` |
//! | samples during training; reconstructions of a digit held out | [`along_training`](crate::experiments::pictures::along_training) | `nae-train/cli/tests/program/pictures.rs` `training_leaves_samples_and_reconstructions` |
//! | reconstruction error against D_z | [`reconstruction_error`](crate::experiments::pictures::reconstruction_error) | `nae-train/cli/tests/program/pictures.rs` `reconstruction_errors_have_a_row_for_each_latent_dimension` |
//! | a bi-modal distribution | [`bimodal`](crate::experiments::pictures::bimodal) | `nae-train/cli/tests/program/pictures.rs` `two_clusters_are_drawn_under_both_models` |
//! | new images of faces | [`EXPERIMENTS`](crate::experiments::detection::EXPERIMENTS) | `nae-train/cli/tests/program/reproduce.rs` `faces_are_divided_as_their_authors_say_and_drawn` |
//!
//! # Appendix: data sets
//!
//! | what | item | test |
//! |---|---|---|
//! | HalfMNIST, ChimeraMNIST | [`outliers`](nae_data::outliers) | `crates/nae-data/src/outliers.rs` `halves_alternate`, `chimeras_join_different_classes`; `nae-train/tests/method/presets.rs` `chimeras_of_mnist_are_blank_between_their_halves` |
//! | ConstantGray, Noise | [`outliers`](nae_data::outliers) | `crates/nae-data/src/outliers.rs` `constant_gray_is_one_level_an_image_uniform_over_images`, `noise_is_uniform_in_every_pixel_and_independent` |
//! | MNIST, FashionMNIST | [`idx`](nae_data::idx) | `crates/nae-data/src/idx.rs` `images_and_labels_plain_and_gzipped`; `nae-train/cli/tests/program/cli.rs` `data_in_files_is_found_named_and_recorded` |
//! | CIFAR-10 | [`cifar`](nae_data::cifar) | `crates/nae-data/src/cifar.rs` `planes_and_labels_come_in_the_order_of_the_files` |
//! | CelebA and its division | [`Source::CelebA`](nae_data::Source::CelebA) | `crates/nae-data/src/celeba.rs` `images_are_divided_by_the_list` |
//! | CIFAR-10 from images; the other sets, as images or arrays | [`Source`](nae_data::Source), [`own`](nae_data::own) | `nae-train/cli/tests/program/reproduce.rs` `cells_and_sets_without_data_are_said_and_left_out` |
//! | crops, padding, inverted images | [`ImageForm`](nae_data::ImageForm) | `nae-train/cli/tests/program/presets.rs` `transforms_are_the_same_in_training_and_in_scoring` |
//! | flips, dequantization | [`Augmentation`](nae_data::Augmentation) | `crates/nae-data/src/augmentation.rs` `images_are_mirrored_half_of_the_time`, `bytes_stay_within_their_256th` |
//! | the presets | [`preset`](nae_train::config::preset) | `nae-train/tests/method/presets.rs` `every_preset_of_images_has_the_papers_numbers`, `the_digits_of_the_paper_are_sampled_as_mnist`; `nae-train/cli/tests/program/presets.rs` `every_preset_of_the_paper_trains_on_data_of_its_form` |
//!
//! # Appendix: network architectures (table of architectures)
//!
//! | row | item | test |
//! |---|---|---|
//! | FCRes2 | [`fc_res2`](nae_train::arch::fc_res2) | `nae-train/src/arch/fc_res.rs` `parameters_as_counted_by_hand` |
//! | Conv28 | [`conv28`](nae_train::arch::conv28) | `nae-train/src/arch/conv28.rs` `parameters_as_counted_by_hand` |
//! | Conv32 | [`conv32`](nae_train::arch::conv32) | `nae-train/src/arch/conv32.rs` `parameters_as_counted_by_hand` |
//! | Conv32Big | [`conv32_big`](nae_train::arch::conv32_big) | `nae-train/src/arch/conv32_big.rs` `parameters_as_counted_by_hand`, `every_weight_of_the_encoder_is_normalized` |
//! | Conv64 | [`conv64`](nae_train::arch::conv64) | `nae-train/src/arch/conv64.rs` `parameters_as_counted_by_hand` |
//! | the code's CIFAR-10 pair | [`igebm32`](nae_train::arch::igebm32) | `nae-train/src/arch/igebm.rs` `parameters_as_counted_by_hand` |
//! | FCRes, Res, ResUp, ResAtt | [`blocks`](nae_train::arch::blocks) | `nae-train/src/arch/blocks.rs` `shapes_and_parameters_as_in_the_paper` |
//! | Bilinear, Nearest | `upsample` | `nae-train/src/arch/upsample.rs` `corners_stay_and_the_middle_is_the_mean`, `nearest_repeats_pixels` |
//! | spectral normalization | `spectral` | `nae-train/src/arch/spectral.rs` `steps_approach_the_largest_singular_value_from_below` |
//! | all, with their gradients | [`LayerSpec`](nae_train::arch::LayerSpec) | `nae-train/tests/method/architectures.rs` `input_gradients_of_every_layer_are_finite_differences` |
//!
//! # Appendix: NAE implementation (table of sampling parameters)
//!
//! | row | key of a preset's `[sampler]` | test |
//! |---|---|---|
//! | latent space | `latent_space` of `[architecture]` | `nae-train/src/config/architecture.rs` `every_kind_is_read_and_sizes_left_out_are_the_papers` |
//! | λ_z, σ_z, τ_z | `latent_chain = { step_size, noise, steps }` | `nae-train/tests/method/presets.rs` `every_preset_of_images_has_the_papers_numbers` |
//! | replay buffer, 10,000 at 95% | `start.on_manifold.replay_buffer = { size, ratio }` | `nae-train/src/sample/replay_buffer.rs` `the_oldest_leaves_first`, `the_ratio_is_kept` |
//! | λ_x, σ_x, τ_x | `visible_chain = { step_size, noise, steps }` | `nae-train/src/sample/langevin.rs` `a_quadratic_energy_gives_the_closed_form_variance` |
//! | annealing of σ_x | `annealing = "harmonic"` | `nae-train/tests/method/chain.rs` `chains_in_space_are_those_of_float64`; `nae-train/src/sample/annealing.rs` `annealing_as_in_the_text_and_as_in_the_code` |
//! | gradient clipping | `gradient_clip`, `gradient_clip_by` | `nae-train/tests/method/chain.rs` `chains_in_space_are_those_of_float64`; `nae-train/src/sample/gradient_clip.rs` `each_kind_holds_what_it_says` |
//! | T = T_z, fixed or trainable | `temperature`, `training.temperature_learning_rate` | `nae-train/src/methods/nae/mod.rs` `temperature_learns_from_the_difference_of_energies` |
//! | Metropolis–Hastings | `metropolis = "exact"` | `nae-train/tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures`, `without_the_correction_the_histogram_is_off` |
//! | bounds | `bounds = { min, max, leaving }` | `nae-train/tests/method/langevin_density.rs` `bounds_that_reject_cut_the_density_off` |
//! | new samples: a latent chain eight times as long | [`NewImages`](nae_train::sample::NewImages) | `nae-train/tests/method/sampler_starts.rs` `new_images_take_a_latent_chain_eight_times_as_long` |
//! | L2 of the encoder's weights; of the decoder's | [`Regularization`](nae_train::config::Regularization) | `nae-train/src/methods/finite_differences.rs` `the_nae_steps_by_the_gradient_of_its_loss` |
//! | a fixed decoder, rates of their own | [`Training`](nae_train::config::Training) | `nae-train/src/methods/nae/mod.rs` `a_fixed_decoder_stays_and_rates_differ` |
//! | the gradient's norm in pre-training (code) | [`Pretraining::max_gradient_norm`](nae_train::config::Pretraining::max_gradient_norm) | `nae-train/src/methods/finite_differences.rs` `pre_training_is_adam_on_gradients_of_a_limited_norm`; `nae-train/src/methods/gradients.rs` `the_norm_is_that_of_all_parameters_together` |
//!
//! # Algorithm 1, line by line
//!
//! | line | item | test |
//! |---|---|---|
//! | u < 0.95: z₀ from the buffer, else from q₀ | [`ReplayBuffer::draw`](nae_train::sample::ReplayBuffer::draw) | `nae-train/tests/method/sampler_starts.rs` `the_share_of_latents_from_the_replay_buffer_is_the_ratio`; `nae-train/src/sample/replay_buffer.rs` `the_ratio_is_kept` |
//! | latent chain, projected to the sphere | [`Langevin::run`](nae_train::sample::Langevin::run) | `nae-train/tests/method/chain.rs` `chains_on_the_sphere_are_those_of_float64` |
//! | append z_τ to the buffer | [`NegativeSampler::sample`](nae_train::sample::NegativeSampler::sample), [`ReplayBuffer::append`](nae_train::sample::ReplayBuffer::append) | `nae-train/tests/method/sampler_starts.rs` `a_replay_buffer_of_latents_gives_earlier_ends`; `nae-train/src/sample/replay_buffer.rs` `the_oldest_leaves_first` |
//! | x₀ = f_d(z_τ) | [`NegativeSampler::sample`](nae_train::sample::NegativeSampler::sample) | `nae-train/tests/method/sampler_starts.rs` `the_manifold_is_the_decoders_image_of_the_latent_chains_end` |
//! | main chain, rejection, annealing | [`Langevin::run`](nae_train::sample::Langevin::run) | `nae-train/tests/method/langevin_density.rs` `adjusted_chains_sample_a_mixture_at_both_temperatures` |
//!
//! # Appendix: baselines
//!
//! | | item | test |
//! |---|---|---|
//! | AE | [`AutoencoderMethod`](nae_train::methods::autoencoder::AutoencoderMethod) | `nae-train/src/methods/finite_differences.rs` `the_autoencoder_steps_by_the_gradient_of_its_loss` |
//! | DAE, σ = 0.3 | [`Denoising`](nae_train::config::Denoising) | `nae-train/src/methods/finite_differences.rs` `the_autoencoder_steps_by_the_gradient_of_its_loss`; `nae-train/src/methods/autoencoder.rs` `a_denoiser_is_compared_with_the_data_without_noise` |
//! | VAE, by reconstruction and by likelihood | [`VariationalAutoencoder`](nae_train::methods::VariationalAutoencoder) | `nae-train/src/methods/vae.rs` `it_steps_by_the_gradient_of_the_bound`, `the_likelihood_is_that_of_the_integral_over_latents` |
//! | WAE-MMD, RBF kernel, median heuristic | [`WaeMethod`](nae_train::methods::WaeMethod), [`mmd_squared`](nae_train::methods::mmd_squared) | `nae-train/src/methods/finite_differences.rs` `the_wae_steps_by_the_gradient_of_its_loss`; `nae-train/src/methods/mmd.rs` `equal_samples_are_at_no_distance`, `two_points_each_by_hand` |
//! | VQ-VAE | [`VectorQuantizedAutoencoder`](nae_train::methods::VectorQuantizedAutoencoder) | `nae-train/src/methods/vqvae.rs` `it_steps_by_the_straight_through_gradient`, `codes_begin_at_latents`, `unused_codes_begin_again_at_latents`, `it_decides_by_the_codes` |
//! | DAGMM | [`GaussianMixtureAutoencoder`](nae_train::methods::GaussianMixtureAutoencoder) | `nae-train/src/methods/dagmm.rs` `it_steps_by_the_gradient_of_its_loss`, `it_decides_by_the_pooled_mixture`; `nae-train/src/methods/mixture.rs` `energies_are_those_of_the_mixture`, `points_of_lower_rank_have_energies` |
//! | GANomaly | [`Ganomaly`](nae_train::methods::Ganomaly) | `nae-train/src/methods/ganomaly.rs` `the_generator_steps_by_the_gradient_of_its_loss`, `the_discriminator_steps_by_the_gradient_of_its_loss`, `it_decides_by_the_distance_of_both_latents`, `a_discriminator_that_has_won_begins_again` |
//! | Glow, K = 12, L = 1, 64 channels | [`Glow`](nae_train::methods::Glow) | `nae-train/src/methods/glow.rs` `the_density_is_that_of_the_change_of_variables`, `the_inverse_inverts`, `the_density_sums_to_one`, `it_steps_by_the_gradient_of_its_loss` |
//! | IGEBM | [`EnergyNetwork`](nae_train::methods::EnergyNetwork) | `nae-train/src/methods/energy_network.rs` `it_steps_by_the_gradient_of_its_loss`, `both_engines_agree`; `nae-train/src/methods/igebm.rs` `negative_samples_go_on_downhill_from_the_buffer`, `samples_of_a_known_density_have_its_mean_and_spread`, `it_learns_a_density_that_is_known` |
//! | PixelCNN++, 5 blocks, 80 filters | [`PixelCnn`](nae_train::methods::PixelCnn) | `nae-train/src/methods/pixelcnn/mod.rs` `a_pixel_depends_on_those_before_it_alone`, `the_probabilities_of_a_pixel_sum_to_one`, `the_likelihoods_of_images_sum_to_the_probability_of_their_beginning`; `nae-train/src/methods/pixelcnn/logistics.rs` `channels_follow_those_before` |
//!
//! # Where this crate differs from the paper's text or its code
//!
//! | | paper's text | authors' code | here |
//! |---|---|---|---|
//! | algorithm 1's updates | without z_{t−1}, x_{t−1}: an error | with | with |
//! | the 8 Gaussians' √2/4 | covariance: an error | standard deviation | standard deviation |
//! | Conv28's padding 1, last kernel 4 | gives no 28×28 | none, 3 | as the code |
//! | Conv64's 245 channels | an error | – | 256 |
//! | Conv32Big's Res(128, 256, 256) | no projection on the skip | – | a 1×1 convolution |
//! | x₀ outside of the bounds | – | clamped | clamped |
//! | annealing | σ/(1 + t) | σ, σ, σ/2, σ/3, … | the text; `harmonic_delayed` is the code |
//! | penalty on the encoder in pre-training | not named | 1e-4 on MNIST (`train_step_ae`) | as the code, on CIFAR-10 too |
//! | penalty on the encoder of the baselines | not named | none | as in pre-training |
//! | the gradient's norm in pre-training | not named | at most 0.1, without a limit for digits held out | at most 0.1, for the baselines too |
//! | the state that is kept | the best by the selection set | those of all epochs are written | the best by the selection set, the latest of equal ones: `stopping.keep = "best"` |
//! | length of pre-training | epochs | ended at the fourth look without a lower validation loss | the text |
//! | Metropolis–Hastings at T ≠ 1 | – | detailed balance at T = 1 only | the Langevin proposal's ratio; `metropolis = "code"` is the code |
//! | the loss | divided by T | divided by T = 1 for digits held out, else not divided | not divided |
//! | limit on the visible chain's gradient | 0.01 | on each element for digits held out, else on the norm of each row | on each element |
//! | images that calibrate | – | – | 2% of those that the authors train on |
//! | ‖z‖² in the ablation's row in ℝ^D | named in section 6.1, without its weight | – | 0.01, as in two dimensions; in pre-training, too |
//! | updates for ImageNet32 | not named | – | those for CIFAR-10, two epochs |
//! | regularization of energies in CD and PCD | negative samples | negative samples and data for digits held out, negative samples in two dimensions | as the code; both weights are settings |
//! | ‖z‖² | squared norm | divided by D | squared norm, with the code's weight .01 |
//! | latent space for D_z = 2 in two dimensions | ℝ^D | the sphere | as the code |
//! | chains of CD and PCD in two dimensions | λ .005, σ .1, 30 steps, as for all of two dimensions | λ .00125, σ .05, 5 and 50 steps | as the code |
//! | the border of [−5, 5]² for CD and PCD | – | clamped | a step across it is rejected: Metropolis–Hastings needs a density of the step |
//! | first temperature for D_z = 3 | 0.5 | 0.1 | the text |
//! | noise of the latent chain for D_z = 3 | 0.1 | 0.1 or 0.2, by notebook | the text |
//! | the figure "density estimation" | – | a VAE of D_z = 1 and 3, an autoencoder of D_z = 3 that ends in tanh | D_z = 2 and 3, linear |
//! | training and validation images of digits held out | 10% at random validate | the first 50,000 images train, the last 10,000 validate | the text |
//! | dequantization | for image data | for CIFAR-10 and CelebA; the loader of MNIST against other data ignores its setting | for all but digits held out, and of these for GANomaly, which does not train without it |
//! | CelebA's images mirrored | not named | at random | not |
//! | CIFAR-10's and ImageNet32's images mirrored | not named | at random for CIFAR-10, no code for ImageNet32 | at random |
//! | the temperature's learning | T, by Adam | log T | log T |
//! | half-digits | upper or lower half at random | in turn | in turn |
//! | the second digit of a chimera | at random | the next image of another class | the next image of another class |
//! | PCD with restart | chains restarted with probability 5% | replay buffer of 10,000 at 95% | the text; `start.noise.replay_buffer` is the code |
//! | MMD | – | unbiased estimate | the biased one, zero on equal samples |
//! | VAE's reconstruction error | – | at a drawn latent | at the posterior's mean |
//! | VQ-VAE's latents | the shared architecture | – | one vector, one code of 512; unused codes are reset |
//! | DAGMM's mixture in deciding | – | – (the named implementation: of the training data, once more) | pooled over the last hundred or so updates |
//! | IGEBM's spectral normalization | – | a singular value below 1 stays in the second convolution of a block | every convolution is divided by its own |
//! | PixelCNN++'s convolutions | – | – (the named implementation: weight normalization) | without weight normalization |
//! | Glow's couplings | – | – (the named implementation: activation normalization) | biases; a prior that is not learned |
//! | CelebA's division | the official one; parts of 162,079, 20,260 and 20,260, which are eight, one and one tenth of all | – | the official one, 162,770, 19,867 and 19,962; a tenth of its validation part calibrates |
//! | images of ConstantGray for the selection of a state | 4,000 | – | 300 at a look; 4,000 are used in the evaluation, as for noise, at the scale `paper` (`evaluation.synthetic_images`) |
//! | D_z and weights of the baselines' terms | searched by the selection set | – | settings, or searched on validation images (`reproduce --search`) |

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Checks every `file` followed by test names on a line of this page. Items are links to documented code; the item
    /// of a line must be named in one of its files, unless a test runs the program.
    #[test]
    fn every_test_named_here_exists_and_names_what_it_tests() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("crates/nae-lab/src/paper.rs")).expect("this file");
        let (mut found, mut items) = (0, 0);
        for line in page.lines().filter(|line| line.starts_with("//! |")) {
            let (mut source, mut all, mut program) = (String::new(), String::new(), false);
            for quoted in line.split('`').skip(1).step_by(2) {
                if quoted.ends_with(".rs") {
                    source = std::fs::read_to_string(root.join(quoted)).expect(quoted);
                    all.push_str(&source);
                    program |= quoted.contains("/cli/tests/");
                } else if !source.is_empty() {
                    assert!(source.contains(&format!("fn {quoted}()")), "{quoted}: {line}");
                    found += 1;
                }
            }
            if program || all.is_empty() {
                continue;
            }
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let item = link.rsplit("::").next().expect("split gives one at least");
                let mut words = all.split(|c: char| !c.is_alphanumeric() && c != '_');
                assert!(words.any(|word| word == item), "no test names {item}: {line}");
                items += 1;
            }
        }
        assert!(found > 90 && items > 40, "{found} tests and {items} items found");
    }
}
