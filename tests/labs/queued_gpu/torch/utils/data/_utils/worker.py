def get_worker_info():
    return None
