"""Models on a server that speaks the API of OpenAI: what is asked, and what comes back."""
