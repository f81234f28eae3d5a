# cudavmm's own files; the engine's come beside them. Where a toolkit's cuda.h is found, cuda_api.h is compared with it when this is built.
set(NX_CUDAVMM_SOURCES cuda_answer.c cuda_driver.c cuda_load.c cuda_probe.c cuda_streams.c cudavmm.c)

file(GLOB NX_CUDA_TOOLKITS /usr/local/cuda*/include /opt/cuda*/include)
find_path(NXMEM_CUDA_INCLUDE cuda.h HINTS $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include PATHS ${NX_CUDA_TOOLKITS}
  NO_SYSTEM_ENVIRONMENT_PATH NO_CMAKE_SYSTEM_PATH DOC "Folder of NVIDIA's cuda.h")
# The kernel's <linux/cuda.h> and others' files of that name are another thing.
if(NXMEM_CUDA_INCLUDE)
  file(STRINGS ${NXMEM_CUDA_INCLUDE}/cuda.h NX_CUDA_VERSION_LINE REGEX "define CUDA_VERSION " LIMIT_COUNT 1)
endif()
if(NX_CUDA_VERSION_LINE)
  add_library(nxmem_cuda_check OBJECT cuda_check.c)
  target_include_directories(nxmem_cuda_check SYSTEM PRIVATE ${NXMEM_CUDA_INCLUDE})
endif()
