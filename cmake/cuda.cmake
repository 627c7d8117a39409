# Whether the kernels for NVIDIA GPUs are built: TRANSFORMER_CUDA is ON, OFF, AUTO (where there is a toolkit) or CARD (and a card). Sets
# TRANSFORMER_HAS_CUDA. What is built runs with and without a GPU: CUDA's runtime is linked in, cuBLASLt is opened when a GPU is first used.
set(TRANSFORMER_HAS_CUDA OFF)
if(NOT TRANSFORMER_CUDA STREQUAL "OFF" AND NOT (TRANSFORMER_CUDA STREQUAL "CARD" AND NOT EXISTS /dev/nvidiactl))
  # The cards at hand; without one, those of data centres. CMake's "native" will not do: the
  # matrix units of 9.0 need the code of 90a.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE cards RESULT_VARIABLE no_card
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
    if(no_card STREQUAL "0" AND cards MATCHES "^[0-9.\n]+$")
      string(REGEX REPLACE "([0-9]+)\\.([0-9])" "\\1\\2-real" cards "${cards}")
      string(REPLACE "\n" ";" CMAKE_CUDA_ARCHITECTURES "${cards}")
      list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
      list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90-real$" "90a-real")
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # some versions of CMake do not know that nvcc has C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    find_package(CUDAToolkit)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.4)
    set(TRANSFORMER_HAS_CUDA ON)
  elseif(TRANSFORMER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TRANSFORMER_CUDA is ON, but there is no CUDA toolkit of version 12.4 or later (nvcc, cuBLASLt); found '${CUDAToolkit_VERSION}'. "
                        "Install one and put its bin folder into PATH, or set TRANSFORMER_CUDA=OFF")
  endif()
endif()

# cuda_sources(OUT): src/backend/cuda as it is compiled: large files one by one, the others as two units, since CUDA's headers take longer
# than any of them: what runs the device, and the kernels.
function(cuda_sources out)
  file(GLOB sources RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu)
  set(large ${sources})
  list(FILTER large INCLUDE REGEX "/(attention.*|elementwise|linear|memory|norm)\\.cu$")
  set(running ${sources})
  list(FILTER running INCLUDE REGEX "/(device|matmul|nccl|pass|recorded)\\.cu$")
  list(REMOVE_ITEM sources ${large} ${running})
  list(TRANSFORM large PREPEND ${PROJECT_SOURCE_DIR}/src/)
  unit_sources(running ${PROJECT_SOURCE_DIR}/src cuda_device.cu ${running})
  unit_sources(kernels ${PROJECT_SOURCE_DIR}/src cuda_kernels.cu ${sources})
  set(${out} ${large} ${running} ${kernels} PARENT_SCOPE)
endfunction()

# add_cuda_kernels(TARGET): src/backend/cuda in place of the stub.
function(add_cuda_kernels target)
  cuda_sources(sources)
  add_library(transformer_cuda OBJECT ${sources})
  set_target_properties(transformer_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(transformer_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  # nvcc takes fmt's checks at compile time for errors: there a wrong message is found when it is written.
  target_compile_definitions(transformer_cuda PRIVATE FMT_CONSTEVAL= FMT_USE_CONSTEXPR=1)
  target_compile_options(transformer_cuda PRIVATE --expt-relaxed-constexpr)
  target_link_libraries(transformer_cuda PRIVATE fmt::fmt)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:transformer_cuda>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
endfunction()
