#pragma once
// Empty: without NCCL_MAJOR the backend does without NCCL.
