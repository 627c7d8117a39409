#pragma once
// Everything a program needs to build, run and train a Transformer.

#include "transformer/autograd/autograd.h"             // require_grad, backward, gradient
#include "transformer/chat/chat_template.h"            // a conversation as a chat model reads it
#include "transformer/core/context.h"                  // Context: device, threads, random numbers, precision
#include "transformer/core/fast_precision.h"           // fast_precision: bfloat16 or float32
#include "transformer/core/tensor.h"                   // Tensor
#include "transformer/explain/bars.h"                  // pictures of what comes next
#include "transformer/explain/explainer.h"             // a look inside a model of any family
#include "transformer/explain/picture.h"               // pictures of attention
#include "transformer/explain/plot.h"                  // pictures of series
#include "transformer/explain/rollout.h"               // where in an image an answer comes from
#include "transformer/generate/generate.h"             // generate: text that goes on from prompts, drawn or searched
#include "transformer/generate/json_constraint.h"      // answers that are JSON of a schema
#include "transformer/io/npy.h"                        // files for NumPy
#include "transformer/io/toml.h"                       // configuration files that people write
#include "transformer/models/classic.h"                // a model's folder: load_transformer, save_transformer
#include "transformer/models/cost.h"                   // parameters by part, FLOPs
#include "transformer/models/encoder_decoder_model.h"  // encoder-decoders: T5, BART, Marian, the original
#include "transformer/models/lora.h"                   // adapters: load_model(…, {.lora = …}), save_adapter, merge_lora
#include "transformer/models/marian.h"                 // the original's settings as a Marian model
#include "transformer/models/model.h"                  // a checkpoint of any family: load_model, save_model
#include "transformer/models/patchtst.h"               // series: PatchTST
#include "transformer/models/presets.h"                // sizes that have a name
#include "transformer/models/swin.h"                   // images: Swin
#include "transformer/models/text.h"                   // text: BERT, GPT-2, LLaMA …
#include "transformer/models/transformer.h"            // Transformer, Encoder
#include "transformer/models/vit.h"                    // images: ViT, DeiT
#include "transformer/nn/stack.h"                      // the layers, for models of your own
#include "transformer/ops/activation.h"                // the ops
#include "transformer/ops/attention.h"
#include "transformer/ops/batch_norm.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/norm.h"
#include "transformer/ops/pack.h"
#include "transformer/ops/patchify.h"
#include "transformer/ops/random.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/rope.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"
#include "transformer/predict/classifier.h"  // labels of texts and images
#include "transformer/predict/embedder.h"    // vectors of texts
#include "transformer/predict/forecaster.h"  // what comes next in a series
#include "transformer/predict/generator.h"   // a model's folder that generates text, whatever its family
#include "transformer/predict/load.h"        // load<Generator>(ctx, folder): a folder for what it is used for
#include "transformer/predict/translator.h"  // Translator, search: greedy and beam search
#include "transformer/series/windows.h"      // series: tables from CSV, parts by time, windows
#include "transformer/serve/server.h"        // models for other programs, over HTTP
#include "transformer/text/bleu.h"           // BLEU as sacreBLEU computes it
#include "transformer/text/chrf.h"
#include "transformer/text/documents.h"                // text files as documents
#include "transformer/text/labelled.h"                 // texts and their classes
#include "transformer/text/tagged.h"                   // texts and the tags of their words
#include "transformer/text/token_row.h"                // long rows of tokens, in memory or in mapped files
#include "transformer/tokenizers/encoder_tokenizer.h"  // vocabularies for encoders
#include "transformer/tokenizers/tokenizer.h"          // text to tokens and back
#include "transformer/tokenizers/vocabulary.h"         // vocabularies for language models
#include "transformer/toys/prices.h"                   // a made series
#include "transformer/train/classify.h"                // training a classifier of texts
#include "transformer/train/forecast.h"                // training a model that forecasts a series
#include "transformer/train/image.h"                   // training a classifier of images
#include "transformer/train/language.h"                // training a language model
#include "transformer/train/metrics_log.h"             // metrics.jsonl, metrics.csv, TensorBoard
#include "transformer/train/mlm.h"                     // training a masked language model
#include "transformer/train/model_task.h"              // a task that trains one of the models
#include "transformer/train/optimizer.h"               // Adam, AdamW, clipping
#include "transformer/train/progress.h"                // the live line
#include "transformer/train/schedule.h"                // learning rates
#include "transformer/train/tag.h"                     // training a tagger of words
#include "transformer/train/trainer.h"                 // Trainer: one loop for every Task
#include "transformer/train/translate.h"               // training a translator from parallel text
#include "transformer/vision/augment.h"                // changes of training images
#include "transformer/vision/dataset.h"                // labelled images: folders by class, IDX, CIFAR
#include "transformer/vision/processor.h"              // images: files, resizing, preprocessor_config.json
