_global_optimizer_post_hooks = {}


def register_optimizer_step_post_hook(hook):
    _global_optimizer_post_hooks[len(_global_optimizer_post_hooks)] = hook


class SGD:
    def step(self):
        for hook in list(_global_optimizer_post_hooks.values()):
            hook(self, (), {})
